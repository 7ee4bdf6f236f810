"""Redistribution alone (§IV-C): a worked example, and the paper's four criteria in random situations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from bench.papers.dilos.runs import NAMES
from scheduler.capacity.redistribution import ClassAccount, redistribute
from sim.run.rng import generator

DRAWN = 20_000
PRIORITIES = {"class1": 6.0, "class2": 3.0, "class3": 1.0}


def accounts(usage: Sequence[float], shares: Sequence[float] = (0.6, 0.3, 0.1)) -> list[ClassAccount]:
    return [
        ClassAccount(name, priority, priority / 10, share, used)
        for (name, priority), share, used in zip(PRIORITIES.items(), shares, usage, strict=True)
    ]


def run_redistribution(quick: bool) -> ExperimentOutcome:
    """Run the worked example, and check the four criteria in random situations."""
    drawn = DRAWN // 10 if quick else DRAWN
    lent = redistribute(accounts((0.1, 0.5, 5.0)))
    # Loads of classes 2 and 3 stay the same; class 1 asks for seven times the share that class 1 has after lending.
    back = redistribute(accounts((7.0, 0.15 / lent["class2"], 0.5 / lent["class3"]), tuple(lent.values())))
    broken = criteria_broken(drawn)
    return ExperimentOutcome(
        (
            *example_findings(lent, back),
            *(
                Finding(
                    f"§IV-C, criterion {number}",
                    text,
                    "always",
                    f"broken in {broken[number]:,} of {drawn:,} random situations",
                    broken[number] == 0,
                    rule="never broken (shares of up to a third lent by class 1 or 2, usages of 0 to 300%)",
                )
                for number, text in CRITERIA.items()
            ),
        ),
        (
            Chart(
                "Shares of ten after each redistribution",
                "redistribution",
                "share of 10",
                lines={
                    name: [(0, 10 * original / 10), (1, 10 * lent[name]), (2, 10 * back[name])]
                    for name, original in PRIORITIES.items()
                },
            ),
        ),
    )


def example_findings(lent: Mapping[str, float], back: Mapping[str, float]) -> tuple[Finding, ...]:
    """Return the findings on the worked example; nothing in it is random."""
    overloaded = redistribute(accounts((1.5, 3.0, 7.0)))
    return (
        Finding(
            "§IV-C, an example",
            "Priorities 6 : 3 : 1 and usages of 10%, 50%, 500%: class 3's demand is met from the supplies of classes 1 and 2, "
            "and the rest returns to class 1",
            "3.35 : 1.65 : 5.00 of 10",
            " : ".join(f"{10 * share:.2f}" for share in lent.values()),
            all(abs(10 * a - b) < 0.005 for a, b in zip(lent.values(), (3.35, 1.65, 5.0), strict=True)),
            rule="equal to two decimals",
            seeds=0,
        ),
        Finding(
            "§IV-C, an example",
            "When class 1's usage rises to 700%, one redistribution gives it its original share, and more",
            "about 6.9 of 10",
            f"{10 * back['class1']:.2f} of 10",
            back["class1"] >= 0.6 and abs(10 * back["class1"] / 6.9 - 1) <= 0.1,
            rule="at least 6 of 10, and within a tenth of 6.9",
            seeds=0,
        ),
        Finding(
            "§IV-C, an example",
            "If all classes are overloaded at their original shares, no share moves",
            "6 : 3 : 1",
            " : ".join(f"{10 * share:.3g}" for share in overloaded.values()),
            all(abs(a - b) < 1e-9 for a, b in zip(overloaded.values(), (0.6, 0.3, 0.1), strict=True)),
            rule="equal up to rounding",
            seeds=0,
        ),
    )


CRITERIA = {
    1: "A class's demand is met, or it has at least its original share",
    2: "The budget meets the demand of a class of higher priority before that of a class of lower priority",
    3: "Capacity that no class asked for goes to the classes below their original shares, highest priority first",
    4: "The sum of the shares does not change",
}


def criteria_broken(drawn: int) -> dict[int, int]:
    """Return how often each criterion was broken in random situations; only shares before and after are compared."""
    rng = generator(1, "redistribution")
    broken = dict.fromkeys(CRITERIA, 0)
    for _ in range(drawn):
        shares = [0.6, 0.3, 0.1]
        for lender, borrower in ((0, 1), (0, 2), (1, 2)):
            part = rng.random() * shares[lender] / 3 if rng.random() < 0.5 else 0.0
            shares[lender], shares[borrower] = shares[lender] - part, shares[borrower] + part
        before = accounts([3 * rng.random() for _ in NAMES], shares)
        after = redistribute(before)
        for number in criteria_of(before, after):
            broken[number] += 1
    return broken


def criteria_of(before: Sequence[ClassAccount], after: Mapping[str, float]) -> list[int]:
    """Return, by number, the paper's criteria that the shares after a redistribution violate."""
    least = 1e-9
    unmet = {
        class_.name: class_.share + class_.demand - after[class_.name]
        for class_ in before
        if class_.demand > 0
    }
    gains = {class_.name: after[class_.name] - max(class_.share, class_.original) for class_ in before}
    broken = []
    if any(
        unmet.get(class_.name, 0) > least and after[class_.name] < class_.original - least
        for class_ in before
    ):
        broken.append(1)
    # No class with demand may gain share above its original share while a class of higher priority has unmet demand.
    if any(
        unmet.get(higher.name, 0) > least and lower.demand > 0 and gains[lower.name] > least
        for place, higher in enumerate(before)
        for lower in before[place + 1 :]
    ):
        broken.append(2)
    # A class without demand must not rise above its original share.
    # A class without demand must get nothing while a class of higher priority, also without demand, is below its original share.
    idle = [class_ for class_ in before if class_.demand == 0]
    low = [class_ for class_ in idle if after[class_.name] < class_.original - least]
    if any(
        after[class_.name] > max(class_.original, class_.share) + least
        or (
            after[class_.name] > class_.share + least
            and any(other.priority > class_.priority for other in low)
        )
        for class_ in idle
    ):
        broken.append(3)
    if abs(sum(after.values()) - sum(class_.share for class_ in before)) > least:
        broken.append(4)
    return broken


EXPERIMENT = Experiment(
    "dilos",
    "dilos-redistribution",
    "Redistribution: a worked example and the four criteria",
    run_redistribution,
    "Redistribution alone, without a simulation. The criteria are the paper's, the example is ours. A class has demand if its usage is above 100%; the paper prints "
    "“below”, which is a misprint. 20,000 random situations of three classes (quick: 2,000).",
)
