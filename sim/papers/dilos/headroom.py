"""ALoMa alone (§III-B): one load manager for everybody finds its headroom, whatever it is told to begin with."""

from __future__ import annotations

from configs.scenario.scenario import load_scenario
from loadshed.aloma import stepped
from sim.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from sim.papers.dilos.figures import percents
from sim.papers.dilos.runs import MACHINE, fared

STARTS = (0.5, 0.8, 1.0)


def run_headroom(quick: bool) -> ExperimentOutcome:
    """ALoMa alone (§III-B): one load manager for everybody, whatever it is told to begin with."""
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
                "The headroom need not be tuned by hand: it is found from any reasonable start",
                "(no figure)",
                f"from {', '.join(f'{start:g}' for start in STARTS)} to {', '.join(f'{end:.3f}' for end in ends)}; "
                f"lost {percents(lost)}",
                max(ends) <= 1.05 * min(ends) and max(lost) - min(lost) < 3,
                rule="over the second half the means are within 5% of each other, and losses of all within 3 points",
            ),
            Finding(
                "§III-B, Eq. (1)",
                "The headroom moves boldly where it is nearly right, and with care where it is far off",
                "of a gap of 1%, 10%, 100%: all, 35%, 6.7%",
                ", ".join(f"{part:.1%}" for part in closed),
                all(abs(a - b) < 0.005 for a, b in zip(closed, (1, 0.346, 0.0666), strict=True)),
                rule="to half a point",
            ),
        ),
        (
            Chart(
                "Headroom of one load manager for all, by where it begins",
                "time, s",
                "headroom, processors",
                lines={
                    f"from {start:g}": [
                        (at_s, headroom)
                        for at_s, headroom in zip(
                            fare.series["class1"].at_s, fare.series["class1"].headroom, strict=True
                        )
                        if headroom is not None
                    ]
                    for start, fare in fares.items()
                },
            ),
        ),
    )


def gap_closed(gap: float) -> float:
    """The part of a gap, in parts of the headroom, that one step closes."""
    return (stepped(1.0, 1.0 + gap) - 1.0) / gap


EXPERIMENT = Experiment(
    "dilos",
    "dilos-headroom",
    "ALoMa finds the headroom by itself",
    run_headroom,
    f"{MACHINE} S_c under one load manager for everybody, which begins with a headroom of 0.5, 0.8 or 1; 60 s (quick: 15 s). k of "
    "Eq. (1) is the size of the gap; as printed, with a sign, every lowering would be a full jump.",
)
