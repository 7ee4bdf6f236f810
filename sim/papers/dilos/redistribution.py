"""Redistribution alone (§IV-C): a worked example, and the four criteria on situations drawn by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.capacity.redistribution import ClassAccount, redistribute
from sim.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from sim.papers.dilos.runs import NAMES
from sim.run.rng import generator

DRAWN = 20_000
PRIORITIES = {"class1": 6.0, "class2": 3.0, "class3": 1.0}


def accounts(usage: Sequence[float], shares: Sequence[float] = (0.6, 0.3, 0.1)) -> list[ClassAccount]:
    return [
        ClassAccount(name, priority, priority / 10, share, used)
        for (name, priority), share, used in zip(PRIORITIES.items(), shares, usage, strict=True)
    ]


def run_redistribution(quick: bool) -> ExperimentOutcome:
    """The worked example, and the four criteria on situations drawn by chance."""
    drawn = DRAWN // 10 if quick else DRAWN
    lent = redistribute(accounts((0.1, 0.5, 5.0)))
    # Loads stay what they are; class 1 asks for seven times what it has left.
    back = redistribute(accounts((7.0, 0.15 / lent["class2"], 0.5 / lent["class3"]), tuple(lent.values())))
    overloaded = redistribute(accounts((1.5, 3.0, 7.0)))
    broken = criteria_broken(drawn)
    return ExperimentOutcome(
        (
            Finding(
                "§IV-C, an example",
                "Priorities 6 : 3 : 1 at usages of 10%, 50%, 500%: class 3's demand is met from the others' supplies, what is "
                "left goes back to class 1",
                "3.35 : 1.65 : 5.00 of 10",
                " : ".join(f"{10 * share:.2f}" for share in lent.values()),
                all(abs(10 * a - b) < 0.005 for a, b in zip(lent.values(), (3.35, 1.65, 5.0), strict=True)),
                rule="to the second digit",
            ),
            Finding(
                "§IV-C, an example",
                "Class 1 comes back at 700%: one redistribution later it has its original share, and more",
                "about 6.9 of 10",
                f"{10 * back['class1']:.2f} of 10",
                back["class1"] >= 0.6 and abs(10 * back["class1"] / 6.9 - 1) <= 0.1,
                rule="at least 6 of 10, and within a tenth of 6.9",
            ),
            Finding(
                "§IV-C, an example",
                "With all classes overloaded at their original shares nothing moves",
                "6 : 3 : 1",
                " : ".join(f"{10 * share:.3g}" for share in overloaded.values()),
                all(abs(a - b) < 1e-9 for a, b in zip(overloaded.values(), (0.6, 0.3, 0.1), strict=True)),
                rule="to rounding",
            ),
            *(
                Finding(
                    f"§IV-C, criterion {number}",
                    text,
                    "always",
                    f"broken in {broken[number]:,} of {drawn:,} situations drawn by chance",
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


CRITERIA = {
    1: "A class's demand is met, or it has at least its original share",
    2: "From the budget the demand of a class of higher priority is met before that of one of lower",
    3: "What nobody asked for goes to the classes below their original shares, highest priority first",
    4: "The sum of the shares does not change",
}


def criteria_broken(drawn: int) -> dict[int, int]:
    """How often each criterion was broken, judged on the shares alone."""
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
    """The criteria that these shares break."""
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
    # Who gains beyond what was its own while a class of higher priority goes short has been served first.
    if any(
        unmet.get(higher.name, 0) > least and lower.demand > 0 and gains[lower.name] > least
        for place, higher in enumerate(before)
        for lower in before[place + 1 :]
    ):
        broken.append(2)
    # Nobody who demands nothing gains beyond its original share, nor at all while a higher such class lies below its own.
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
    "The redistribution alone, without a simulation; the paper gives the criteria, the example is ours. Demand is read as for usages above 100%; the paper prints “below”, a "
    "misprint. 20,000 situations of three classes drawn by chance (quick: 2,000).",
)
