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


class PathCapacity(Settings):
    """The path that takes most tuples a second through to the root: least latency (MavStream)."""

    kind: Literal["path"] = "path"


class Segment(Settings):
    """The part of a path that releases most memory a second (MavStream)."""

    kind: Literal["segment"] = "segment"


class SimplifiedSegment(Settings):
    """The same with at most two parts a path: fewer hand-overs for a little more memory (MavStream)."""

    kind: Literal["simplified-segment"] = "simplified-segment"
    gamma: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """A path's first part goes on while the next operator releases more than this of what the current one does; the
    thesis only asks for less than 1, which it would be for `segment`."""


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
    | PathCapacity
    | Segment
    | SimplifiedSegment
    | LongestStretchFirst
    | BalanceResponse
    | BalanceSlowdown,
    Field(discriminator="kind"),
]

PolicyKind = Literal[
    "rr", "fcfs", "srpt", "hr", "hnr", "chain", "path", "segment", "simplified-segment", "lsf", "brt", "bsd"
]
POLICY_KINDS: tuple[PolicyKind, ...] = get_args(PolicyKind)


def policy_of(kind: str, clusters: int = 0) -> PolicySettings:
    """The settings of a policy by its name, as an option on a command line gives it."""
    if kind not in POLICY_KINDS:
        raise UnknownName("no such policy", "--policy", kind, nearest(kind, POLICY_KINDS))
    given = {"kind": kind} | ({"clusters": clusters} if clusters else {})
    settings: PolicySettings = TypeAdapter(PolicySettings).validate_python(given)
    return settings
