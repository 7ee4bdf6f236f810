"""ALoMa alone (§III-B): one load manager for all classes finds its headroom from any initial value."""

from __future__ import annotations

from bench.papers.claim import Chart, Experiment, ExperimentOutcome, Finding, figures_of
from bench.papers.dilos.figures import percents
from bench.papers.dilos.runs import MACHINE, fared
from configs.scenario.scenario import load_scenario
from loadshed.aloma import stepped

STARTS = (0.5, 0.8, 1.0)


def run_headroom(quick: bool) -> ExperimentOutcome:
    """Run one load manager for all classes, with several initial headrooms."""
    end_s = 15.0 if quick else 60.0
    scenario = load_scenario("dilos-sc").model_copy(update={"seconds": end_s})
    fares = {}
    for start in STARTS:
        load = scenario.load.model_copy(update={"headroom_start": start})
        fares[start] = fared(scenario.model_copy(update={"load": load}), "common", 1)
    ends = [fare.over("class1", "headroom", end_s / 2, end_s) for fare in fares.values()]
    lost = [fare.loss_pct[0] for fare in fares.values()]
    closed = [gap_closed(gap) for gap in (0.01, 0.1, 1.0)]
    return ExperimentOutcome(
        (
            Finding(
                "§III-B",
                "The headroom need not be tuned by hand: ALoMa finds it from any reasonable initial value",
                "(no figure)",
                f"from {', '.join(f'{start:g}' for start in STARTS)} to {', '.join(f'{end:.3f}' for end in ends)}; "
                f"lost {percents(lost)}",
                max(ends) <= 1.05 * min(ends) and max(lost) - min(lost) < 3,
                rule="means over the second half of the runs are within 5% of each other, and losses within 3 percentage points",
            ),
            Finding(
                "§III-B, Eq. (1)",
                "One step of the headroom closes a small gap completely, and only a small part of a large gap",
                "of a gap of 1%, 10%, 100%: all, 35%, 6.7%",
                ", ".join(f"{part:.1%}" for part in closed),
                all(abs(a - b) < 0.005 for a, b in zip(closed, (1, 0.346, 0.0666), strict=True)),
                rule="within half a percentage point",
                figures=figures_of((1.0, 0.346, 0.0666), closed),
                seeds=0,
            ),
        ),
        (
            Chart(
                "Headroom of one load manager for all classes, by initial value",
                "time, s",
                "headroom, processors",
                lines={
                    f"from {start:g}": [
                        (at_s, headroom)
                        for at_s, headroom in zip(
                            fare.series[0]["class1"].at_s, fare.series[0]["class1"].headroom, strict=True
                        )
                        if headroom is not None
                    ]
                    for start, fare in fares.items()
                },
            ),
        ),
    )


def gap_closed(gap: float) -> float:
    """Return the fraction of a gap between two headrooms that one adjustment closes; `gap` is relative to the lower headroom."""
    return (stepped(1.0, 1.0 + gap) - 1.0) / gap


EXPERIMENT = Experiment(
    "dilos",
    "dilos-headroom",
    "ALoMa finds the headroom by itself",
    run_headroom,
    f"{MACHINE} S_c with one load manager for all classes and an initial headroom of 0.5, 0.8 or 1; 60 s (quick: 15 s). In Eq. (1), k is "
    "taken as the size of the gap. As printed, k has a sign, so that each decrease of the headroom would close the whole gap.",
)
