"""Which operator of a class runs next: one frozen model per policy, closed in one union.

`scheduler.policies.build_policy` turns a member of the union into the policy itself. What each one minimises
stands beside it; formulas are in ALGORITHMS terms (S global selectivity, C̄ expected cost of a tuple from the
operator to the root, T ideal cost of a result, W wait of the head tuple).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from configs.base import Settings
from configs.problems import UnknownName, nearest

Clusters = Annotated[int, Field(ge=0, le=1000)]


class RoundRobin(Settings):
    """Cyclic order; minimises nothing, starves nobody."""

    kind: Literal["rr"] = "rr"


class FirstComeFirstServed(Settings):
    """Oldest head tuple first: least maximum response."""

    kind: Literal["fcfs"] = "fcfs"


class ShortestRemaining(Settings):
    """1/T."""

    kind: Literal["srpt"] = "srpt"


class HighestRate(Settings):
    """S/C̄: least mean response. The default."""

    kind: Literal["hr"] = "hr"


class HighestNormalizedRate(Settings):
    """S/(C̄·T): least mean slowdown."""

    kind: Literal["hnr"] = "hnr"


class Chain(Settings):
    """Steepest segment of the progress chart's lower envelope: least queue memory."""

    kind: Literal["chain"] = "chain"


class LongestStretchFirst(Settings):
    """W/T: least maximum slowdown."""

    kind: Literal["lsf"] = "lsf"
    clusters: Clusters = 0


class BalanceResponse(Settings):
    """(S/C̄)·W: least ℓ2 of response."""

    kind: Literal["brt"] = "brt"
    clusters: Clusters = 0


class BalanceSlowdown(Settings):
    """S/(C̄·T)·W/T: least ℓ2 of slowdown.

    `clusters` 0 evaluates every ready operator at each decision; 12 logarithmic clusters cost about 5% of the
    objective (Sharaf §3.8.3) and make a decision independent of the number of operators.
    """

    kind: Literal["bsd"] = "bsd"
    clusters: Clusters = 0


PolicySettings = Annotated[
    RoundRobin
    | FirstComeFirstServed
    | ShortestRemaining
    | HighestRate
    | HighestNormalizedRate
    | Chain
    | LongestStretchFirst
    | BalanceResponse
    | BalanceSlowdown,
    Field(discriminator="kind"),
]


class Automatic(Settings):
    """Whichever of the policies the simulator finds best for the class's objective, as the class is now.

    It begins with the objective's own (`configs.objectives`); `scheduler.tuning` says when it is left for another.
    """

    kind: Literal["auto"] = "auto"
    gain: Annotated[float, Field(ge=0.01, le=0.9)] = 0.1
    """By which part another policy has to do better, to be worth a switch: forecasts of one run differ by some percent."""

    steady: Annotated[int, Field(ge=1, le=50)] = 3
    """How many times in a row it has to."""

    every_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Time from one comparison to the next, at least: a comparison takes a second of another processor or so."""


ClassPolicy = Annotated[PolicySettings | Automatic, Field(discriminator="kind")]
"""What a class may say."""

PolicyKind = Literal["rr", "fcfs", "srpt", "hr", "hnr", "chain", "lsf", "brt", "bsd"]
POLICY: TypeAdapter[PolicySettings] = TypeAdapter(PolicySettings)
POLICY_KINDS: tuple[PolicyKind, ...] = get_args(PolicyKind)


def policy_of(kind: str, clusters: int = 0) -> PolicySettings:
    """The settings of a policy by its name, as an option on a command line gives it."""
    if kind not in POLICY_KINDS:
        raise UnknownName("no such policy", "--policy", kind, nearest(kind, POLICY_KINDS))
    given = {"kind": kind} | ({"clusters": clusters} if clusters else {})
    return POLICY.validate_python(given)


def policy_text(settings: PolicySettings) -> str:
    """A policy in a word: `hr`, or `bsd/12` with its clusters."""
    clusters = getattr(settings, "clusters", 0)
    return f"{settings.kind}/{clusters}" if clusters else settings.kind


def policy_from_text(text: str) -> PolicySettings:
    kind, _, clusters = text.partition("/")
    return policy_of(kind, int(clusters or 0))
