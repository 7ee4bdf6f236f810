"""Set-up S_c (§IV) with equal constant rates: without shedding, with a common shedder, with a load manager per class, and with DILoS."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bench.papers.claim import Experiment, ExperimentOutcome, Finding, figures_of
from bench.papers.dilos.figures import headrooms, millis, milliseconds, percents, responses
from bench.papers.dilos.runs import MACHINE, NAMES, RUNS, SETTLED_S, TIMES_DIFFER, ManagerRuns, fared
from configs.scenario.scenario import Scenario, load_scenario

SECONDS, QUICK_SECONDS = 120.0, 30.0
# Difference in percentage points below which the losses of two classes count as the same.
SAME_POINTS = 1.0
COMMON_LOSS = (
    "shedding makes the trains of classes 1 and 2 shorter here, so that their tuples cost more: a tuple of class 1 costs 320 µs under a common "
    "load manager, and 290 µs with a load manager each. The paper does not give the cost of a call, on which this depends"
)
HEADROOM_LEARNT = (
    "class 3 has long trains, which make its tuples cheap here: 185 µs each, where class 1's cost 290 µs. So class 3 processes the same part of "
    "its input as in the paper with less capacity. The paper does not give the costs"
)


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
            *under_dilos(dilos, per_class, end_s),
            *with_batches(dilos, per_class, unscaled),
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
    last = none.over("class3", "response_ms", none.end_s - 1, none.end_s + 1)
    return [
        Finding(
            "§IV-A, Fig. 2",
            "Without shedding, the response time of class 3 grows without bound; classes 1 and 2 answer quickly",
            "classes 1 and 2 ~3 ms, class 3 unbounded",
            f"{millis(none.mean_ms[:2])}; class 3 {milliseconds(half)} after half of the input, {milliseconds(whole)} at its end",
            none.mean_ms[0] < 10 and none.mean_ms[1] < 10 and whole > 1.5 * half > 1.5 * 500,
            rule="classes 1 and 2 below 10 ms; class 3 above its target after half of the input, and 1.5 times that at its end",
            seeds=1,
        ),
        Finding(
            "§IV-A, Fig. 2",
            "Class 3's response time falls after the other classes have finished their input",
            "falls at the end",
            f"{milliseconds(whole)} at the end of the input, {milliseconds(last)} at the end of the queue",
            last <= 0.8 * whole,
            rule="at the end of the queue, it is at least a fifth lower than at the end of the input",
            seeds=1,
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
            figures=figures_of((517.07,), common.mean_ms[2:]),
        ),
        Finding(
            "§IV-A, Table I",
            "With a common load manager all three classes lose the same part, although only class 3 is overloaded",
            "11.42%, 11.43%, 11.60%",
            percents(lost),
            min(lost) > 0 and max(lost) - min(lost) < SAME_POINTS,
            rule="all classes lose tuples, within one point of each other",
            figures=figures_of((11.42, 11.43, 11.60), lost),
            why=COMMON_LOSS,
        ),
        Finding(
            "§IV-A, Table I",
            "Classes 1 and 2 answer quickly under a common load manager",
            "3.00 ms, 3.13 ms",
            millis(common.mean_ms[:2]),
            all(ms < 0.02 * 300 for ms in common.mean_ms[:2]),
            rule="both means are below 6 ms, a fiftieth of class 1's target",
            figures=figures_of((3.0, 3.13), common.mean_ms[:2]),
            why=TIMES_DIFFER,
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
            figures=figures_of((3.55, 3.75, 492.84), per_class.mean_ms),
            why=f"{TIMES_DIFFER}. Class 3 answers sooner because Weir's load manager counts the queue: a class accepts only what it can "
            "process, together with its queue, within a part of its delay target",
        ),
        Finding(
            "§IV-B, Table II",
            "With one load manager per class, only the overloaded class 3 is shed",
            "0%, 0%, 35.95%",
            percents(lost),
            lost[:2] == [0, 0] and lost[2] > 0,
            rule="classes 1 and 2 lose no tuple, and class 3 loses some",
            figures=figures_of((0.0, 0.0, 35.95), lost),
        ),
        Finding(
            "§IV-B, Fig. 4",
            "Load managers find out which capacity other classes leave unused: class 3's headroom rises from 0.1, class 2's "
            "rises a little from 0.3, class 1's stays at 0.6",
            "0.6, >0.3, 0.25",
            f"{first:.2f}, {second:.2f}, {third:.2f}",
            abs(first - 0.6) < 1e-9 and second > 0.3 and third > 0.1,
            rule="means over the last quarter of the run: class 1 still 0.6, class 2 above 0.3, class 3 above 0.1",
            figures=figures_of((0.6, 0.25), (first, third)),
            why=HEADROOM_LEARNT,
        ),
    ]


def under_dilos(dilos: ManagerRuns, per_class: ManagerRuns, end_s: float) -> list[Finding]:
    lost, longer = dilos.loss_pct, [a - b for a, b in zip(dilos.mean_ms, per_class.mean_ms, strict=True)]
    less = 1 - dilos.mean_ms[2] / per_class.mean_ms[2]
    share = dilos.over("class3", "share", 0.75 * end_s, end_s)
    return [
        Finding(
            "§IV-C, Table III",
            "With DILoS no class has to shed",
            "0%, 0%, 0%",
            f"{percents(lost)}; after {SETTLED_S:g} s {sum(dilos.shed_settled)} tuples of all classes",
            lost[:2] == [0, 0] and sum(dilos.shed_settled) == 0,
            rule=f"classes 1 and 2 lose no tuple; class 3 loses no tuple after {SETTLED_S:g} s, that is after three redistributions",
            figures=figures_of((0.0, 0.0, 0.0), lost),
            why="class 3 loses tuples only before the first redistributions, when nothing is lent yet. The paper does not say whether its "
            "averages include the beginning of a run",
        ),
        Finding(
            "§IV-C, Tables II and III",
            "Class 3's response time is an order of magnitude shorter than with load managers alone",
            "493 → 43 ms, −91%",
            f"{per_class.mean_ms[2]:.0f} → {dilos.mean_ms[2]:.0f} ms, −{less:.0%}",
            less >= 0.5,
            rule="at least halved",
            figures=figures_of((91.3,), (100 * less,)),
        ),
        Finding(
            "§IV-C, Tables II and III",
            "The response times of classes 1 and 2 rise by around 1 ms",
            "+0.73 ms, +0.63 ms",
            f"{longer[0]:+.2f} ms, {longer[1]:+.2f} ms",
            all(0 < rise <= 2 for rise in longer[:2]),
            rule="both rise, by at most 2 ms",
            figures=figures_of((0.73, 0.63), longer[:2]),
            why=TIMES_DIFFER,
        ),
        Finding(
            "§IV-C, Fig. 5",
            "Class 3 receives more of the capacity",
            "more than its 0.1",
            f"{share:.2f} of the lane",
            share >= 0.15,
            rule="its mean share over the last quarter of the run is at least 1.5 times its original share",
        ),
    ]


def with_batches(dilos: ManagerRuns, per_class: ManagerRuns, unscaled: ManagerRuns) -> list[Finding]:
    lost = dilos.loss_pct
    saved = [1 - a / b for a, b in zip(dilos.cost_us, per_class.cost_us, strict=True)]
    return [
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
    seeds=RUNS,
)
