"""Set-up S_c (§IV) with equal constant rates: without shedding, with a common shedder, with a load manager per class, and with DILoS."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bench.papers.claim import Experiment, ExperimentOutcome, Finding
from bench.papers.dilos.figures import about, headrooms, millis, milliseconds, percents, responses
from bench.papers.dilos.runs import MACHINE, NAMES, RUNS, SETTLED_S, ManagerRuns, fared
from configs.scenario.scenario import Scenario, load_scenario

SECONDS, QUICK_SECONDS = 120.0, 30.0
# Difference in percentage points below which the losses of two classes count as the same.
SAME_POINTS = 1.0


def s_c(quick: bool, **changes: Any) -> Scenario:
    seconds = QUICK_SECONDS if quick else SECONDS
    return load_scenario("dilos-sc").model_copy(update={"seconds": seconds} | changes)


def run_sc(quick: bool) -> ExperimentOutcome:
    """Run the set-up S_c (equal constant rates) without shedding, with a common shedder, with a load manager per class, and with DILoS."""
    runs = 1 if quick else RUNS
    end_s = QUICK_SECONDS if quick else SECONDS
    # Without load management, a long queue remains at the end of the input. The run continues until the queue is empty (Fig. 2).
    none = fared(s_c(quick, drain=True), "none", 1)
    common, per_class, dilos, unscaled = (
        fared(s_c(quick), manager, runs) for manager in ("common", "per-class", "dilos", "dilos-unscaled")
    )
    return ExperimentOutcome(
        (
            *without_management(none, end_s),
            *under_one_shedder(common),
            *under_one_each(per_class, end_s),
            *under_dilos(dilos, per_class, unscaled, end_s),
            under_any(common, per_class, dilos),
        ),
        (
            responses(none, "Fig. 2: no shedding"),
            responses(common, "Fig. 3: one common shedder"),
            responses(per_class, "Fig. 4: a load manager for each class"),
            headrooms(per_class, "Fig. 4: their headrooms"),
            responses(dilos, "Fig. 5: DILoS"),
            headrooms(dilos, "Fig. 5: headrooms under DILoS"),
        ),
    )


def without_management(none: ManagerRuns, end_s: float) -> list[Finding]:
    half, whole = (none.over("class3", "response_ms", part * end_s - 5, part * end_s) for part in (0.5, 1.0))
    last = none.over("class3", "response_ms", none.first.now - 1, none.first.now + 1)
    return [
        Finding(
            "§IV-A, Fig. 2",
            "Without shedding, the response time of class 3 grows without bound; classes 1 and 2 answer quickly",
            "classes 1 and 2 ~3 ms, class 3 unbounded",
            f"{millis(none.mean_ms[:2])}; class 3 {milliseconds(half)} after half of the input, {milliseconds(whole)} at its end",
            none.mean_ms[0] < 10 and none.mean_ms[1] < 10 and whole > 1.5 * half > 1.5 * 500,
            rule="classes 1 and 2 below 10 ms; class 3 above its target after half of the input, and 1.5 times that at its end",
        ),
        Finding(
            "§IV-A, Fig. 2",
            "Class 3's response time falls after the other classes have finished their input",
            "falls at the end",
            f"{milliseconds(whole)} at the end of the input, {milliseconds(last)} at the end of the queue",
            last <= 0.8 * whole,
            rule="at the end of the queue, it is at least a fifth lower than at the end of the input",
        ),
    ]


def under_one_shedder(common: ManagerRuns) -> list[Finding]:
    lost = common.loss_pct
    return [
        Finding(
            "§IV-A, Table I",
            "One common load manager keeps the response time of class 3 at or below its target of 500 ms",
            "517 ms",
            millis(common.mean_ms[2:]),
            common.mean_ms[2] <= 1.05 * 500,
            rule="mean of class 3 at most 5% above its target (the paper's own is 3% above)",
        ),
        Finding(
            "§IV-A, Table I",
            "With a common load manager all three classes lose the same part, although only class 3 is overloaded",
            "11.42%, 11.43%, 11.60%",
            percents(lost),
            max(lost) - min(lost) < SAME_POINTS and all(about(loss, 11.5) for loss in lost),
            rule="within one point of each other, and each within a factor of two of 11.5%",
        ),
        Finding(
            "§IV-A, Table I",
            "Classes 1 and 2 answer quickly under a common load manager",
            "3.00 ms, 3.13 ms",
            millis(common.mean_ms[:2]),
            all(ms < 0.02 * 300 for ms in common.mean_ms[:2]),
            rule="both means are below 6 ms, a fiftieth of class 1's target",
        ),
    ]


def under_one_each(per_class: ManagerRuns, end_s: float) -> list[Finding]:
    lost = per_class.loss_pct
    first, second, third = (per_class.over(name, "headroom", 0.75 * end_s, end_s) for name in NAMES)
    return [
        Finding(
            "§IV-B, Table II",
            "One load manager per class controls the response times of all classes",
            "3.55 ms, 3.75 ms, 493 ms",
            f"{millis(per_class.mean_ms)}; p95 {millis(per_class.p95_ms)}",
            per_class.within_targets(),
            rule="p95 of each class at most its delay target of 300, 400, 500 ms",
        ),
        Finding(
            "§IV-B, Table II",
            "With one load manager per class, only the overloaded class 3 is shed",
            "0%, 0%, 35.95%",
            percents(lost),
            lost[:2] == [0, 0] and about(lost[2], 35.95),
            rule="classes 1 and 2 lose no tuple, class 3 within a factor of two of 35.95%",
        ),
        Finding(
            "§IV-B, Fig. 4",
            "Load managers find out which capacity other classes leave unused: class 3's headroom rises from 0.1, class 2's "
            "rises a little from 0.3, class 1's stays at 0.6",
            "0.6, >0.3, 0.25",
            f"{first:.2f}, {second:.2f}, {third:.2f}",
            abs(first - 0.6) < 1e-9 and second > 0.3 and third > 0.1 and about(third, 0.25),
            rule="means over the last quarter of the run: class 1 still 0.6, class 2 above 0.3, class 3 above 0.1 and within a "
            "factor of two of 0.25",
        ),
    ]


def under_dilos(
    dilos: ManagerRuns, per_class: ManagerRuns, unscaled: ManagerRuns, end_s: float
) -> list[Finding]:
    lost, longer = dilos.loss_pct, [a - b for a, b in zip(dilos.mean_ms, per_class.mean_ms, strict=True)]
    less = 1 - dilos.mean_ms[2] / per_class.mean_ms[2]
    share = dilos.over("class3", "share", 0.75 * end_s, end_s)
    saved = [1 - a / b for a, b in zip(dilos.cost_us, per_class.cost_us, strict=True)]
    return [
        Finding(
            "§IV-C, Table III",
            "With DILoS no class has to shed",
            "0%, 0%, 0%",
            f"{percents(lost)}; after {SETTLED_S:g} s {sum(dilos.shed_settled)} tuples of all classes",
            lost[:2] == [0, 0] and sum(dilos.shed_settled) == 0,
            rule=f"classes 1 and 2 lose no tuple; class 3 loses no tuple after {SETTLED_S:g} s, that is after three redistributions",
        ),
        Finding(
            "§IV-C, Tables II and III",
            "Class 3's response time is an order of magnitude shorter than with load managers alone",
            "493 → 43 ms, −91%",
            f"{per_class.mean_ms[2]:.0f} → {dilos.mean_ms[2]:.0f} ms, −{less:.0%}",
            less >= 0.5 * 0.91,
            rule="shorter by at least half of the claimed 91%",
        ),
        Finding(
            "§IV-C, Tables II and III",
            "The response times of classes 1 and 2 rise by around 1 ms",
            "+0.73 ms, +0.63 ms",
            f"{longer[0]:+.2f} ms, {longer[1]:+.2f} ms",
            all(0 < factor <= 2 for factor in longer[:2]),
            rule="both rise, by at most 2 ms",
        ),
        Finding(
            "§IV-C, Fig. 5",
            "Class 3 receives more of the capacity",
            "more than its 0.1",
            f"{share:.2f} of the lane",
            share >= 0.15,
            rule="its mean share over the last quarter of the run is at least 1.5 times its original share",
        ),
        Finding(
            "§IV-C",
            "With a smaller share, a lightly loaded class processes more tuples per batch, so that a tuple costs less",
            "(no figure)",
            f"class 1 −{saved[0]:.0%}, class 2 −{saved[1]:.0%} processor time per tuple",
            saved[0] >= 0.05,
            rule="class 1's processor time per tuple is at least 5% lower than with load managers alone",
        ),
        Finding(
            "§IV-C, Eq. (2)",
            "Scaling the headroom with the share helps each load manager to adapt quickly",
            "(no figure)",
            f"class 3 loses {lost[2]:.2g}% with it, {unscaled.loss_pct[2]:.2g}% without",
            lost[2] <= unscaled.loss_pct[2] / 2,
            rule="with scaling, class 3 loses at most half of what it loses without",
        ),
    ]


def under_any(*fares: ManagerRuns) -> Finding:
    return Finding(
        "§II",
        "Given the same workload, a class of higher priority answers no later than a class of lower priority",
        "3.00 ≤ 3.13 ≤ 517; 3.55 ≤ 3.75 ≤ 493; 4.28 ≤ 4.38 ≤ 43 ms",
        "; ".join(millis(fare.mean_ms) for fare in fares),
        all(higher <= 1.05 * lower for fare in fares for higher, lower in pairwise(fare.mean_ms)),
        rule="with a common shedder, a load manager per class, and DILoS: no mean is more than 5% above that of the next lower priority",
    )


EXPERIMENT = Experiment(
    "dilos",
    "dilos-sc",
    "S_c: equal constant rates that about fill the processor",
    run_sc,
    f"{MACHINE} Each class gets 1,300 tuples/s; five runs of 120 s (quick: one run of 30 s).",
)
