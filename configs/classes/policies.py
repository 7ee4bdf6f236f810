"""Which operator of a class runs next: one frozen model per policy, closed in one union.

The union is the list of all policies: options, checks, documents and tests derive theirs from it. A row in
`scheduler.operators.policies.build` says what builds the policy. The first sentence of a model is its line in docs/scenarios.md;
formulas use S for global selectivity, C̄ for the expected cost of a tuple from the operator to the root, T for the ideal cost of
a result, and W for the wait of the oldest tuple.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from configs.base import Fraction, Settings
from configs.errors import Contradiction, InvalidInput
from configs.setting_text import in_a_file, settings_of_text

Sharing = Literal["pdt", "sum", "max"]
"""What makes the priority of an operator that several queries share: its priority-defining tree (Sharaf §3.6.2), all
segments behind it, or the best of them alone."""

Parts = Annotated[int, Field(ge=1, le=500)]
PushThrough = bool
"""Whether all that follows an operator runs as soon as it has, without further decisions."""

Clusters = Annotated[int, Field(ge=0, le=1000)]


class RoundRobin(Settings):
    """Cyclic order: every operator with input once per cycle."""

    kind: Literal["rr"] = "rr"


class FirstComeFirstServed(Settings):
    """Oldest tuple first: least maximum response time."""

    kind: Literal["fcfs"] = "fcfs"


class LongestQueueFirst(Settings):
    """Most waiting tuples first: no queue grows long, and no estimate is needed."""

    kind: Literal["lqf"] = "lqf"


class ShortestRemaining(Settings):
    """1/T: shortest ideal processing time first."""

    kind: Literal["srpt"] = "srpt"


class HighestRate(Settings):
    """S/C̄: least mean response time. The default."""

    kind: Literal["hr"] = "hr"
    sharing: Sharing = "pdt"


class HighestNormalizedRate(Settings):
    """S/(C̄·T): least mean slowdown."""

    kind: Literal["hnr"] = "hnr"
    sharing: Sharing = "pdt"


class Chain(Settings):
    """Steepest segment of the progress chart's lower envelope: least queue memory."""

    kind: Literal["chain"] = "chain"


class PathCapacity(Settings):
    """The path that takes most tuples per second through to the root: least latency (MavStream)."""

    kind: Literal["path"] = "path"


class Segment(Settings):
    """The part of a path that releases most memory per second (MavStream)."""

    kind: Literal["segment"] = "segment"


class SimplifiedSegment(Settings):
    """Like `segment`, with at most two parts per path: fewer hand-overs for a little more memory (MavStream)."""

    kind: Literal["simplified-segment"] = "simplified-segment"
    gamma: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """A path's first part goes on while the next operator releases more than this of what the current one does; the
    thesis only asks for less than 1, which it would be for `segment`."""


class FixedPriority(Settings):
    """Least static slack, deadline less downstream cost, first: utility under steady load (Carney)."""

    kind: Literal["fixed"] = "fixed"
    push_through: PushThrough = False


class SlopeSlack(Settings):
    """Highest loss of utility per second at the expected latency, then least slack: utility under bursty load (Carney)."""

    kind: Literal["slope-slack"] = "slope-slack"
    push_through: PushThrough = False


class Bucketed(Settings):
    """Like `slope-slack`, but by buckets of gradient and slack: nearly as good, at a cost that does not grow with the network (Carney)."""

    kind: Literal["bucket"] = "bucket"
    gradients: Parts = 20
    slacks: Parts = 20
    """Parts of each range; in the thesis 20 do best in a network of 1,000 operators, 50 in one of 10,000."""

    push_through: PushThrough = False


class Superbox(Settings):
    """One decision runs a whole query: fewer decisions and fewer calls (Carney)."""

    kind: Literal["superbox"] = "superbox"
    order: Literal["rr", "fcfs", "hr", "fixed"] = "rr"
    """Which query: that of the operator this policy picks."""

    traversal: Literal["min-cost", "min-latency", "min-memory"] = "min-cost"
    """In which order the query's operators run: each once, after all that feed it; those nearest to an answer first, each with all
    that follow it; or those that release most memory first."""


class PrioritySearch(Settings):
    """How a policy whose priorities grow with time finds the highest (Sharaf §3.3.2)."""

    clusters: Clusters = 0
    """0: every operator is ranked by itself."""

    clustering: Literal["logarithmic", "uniform"] = "logarithmic"
    """Whether clusters span equal ratios of the static part or equal differences, which is the baseline."""

    search: Literal["all", "fagin"] = "all"
    """Whether all are looked at, or only until nothing further can be higher; the answer is the same."""

    processing: Literal["single", "clustered"] = "single"
    """Whether all operators of the chosen cluster with the same head tuple run on one decision."""

    @model_validator(mode="after")
    def clusters_are_there(self) -> Self:
        for key, usual in (("clustering", "logarithmic"), ("processing", "single")):
            if not self.clusters and getattr(self, key) != usual:
                raise Contradiction("there are no clusters", key, getattr(self, key), "add clusters: 12")
        return self


class LongestStretchFirst(PrioritySearch):
    """W/T: least maximum slowdown."""

    kind: Literal["lsf"] = "lsf"


class BalanceResponse(PrioritySearch):
    """(S/C̄)·W: least ℓ2 norm of response times."""

    kind: Literal["brt"] = "brt"
    sharing: Sharing = "pdt"


class BalanceSlowdown(PrioritySearch):
    """S/(C̄·T)·W/T: least ℓ2 norm of slowdowns.

    `clusters` 0 evaluates every ready operator at each decision; 12 logarithmic clusters cost about 5% of the
    objective (Sharaf §3.8.3) and make a decision independent of the number of operators.
    """

    kind: Literal["bsd"] = "bsd"
    sharing: Sharing = "pdt"


class FreshnessAware(Settings):
    """(1 − (1−S)^(N^β))/(N^β·C̄), with N tuples waiting: least staleness of the outputs, by weight of the query.

    `beta` 1 is for freshness alone; 0 is for answers by processor time, as `hr`.
    """

    kind: Literal["fas"] = "fas"
    beta: Fraction = 1.0


class EarliestDeadline(Settings):
    """Earliest deadline first: no tardiness as long as all deadlines can be met (Golab §4.1)."""

    kind: Literal["edf"] = "edf"


class DeadlineOrRate(Settings):
    """`edf` among results that can still meet their deadlines, `hr` among the others, whichever can wait less: least tardiness (Sharaf §3.5.2)."""

    kind: Literal["edf-hr"] = "edf-hr"


PolicySettings = Annotated[
    RoundRobin
    | FirstComeFirstServed
    | LongestQueueFirst
    | ShortestRemaining
    | HighestRate
    | HighestNormalizedRate
    | Chain
    | PathCapacity
    | Segment
    | SimplifiedSegment
    | FixedPriority
    | SlopeSlack
    | Bucketed
    | Superbox
    | LongestStretchFirst
    | BalanceResponse
    | BalanceSlowdown
    | FreshnessAware
    | EarliestDeadline
    | DeadlineOrRate,
    Field(discriminator="kind"),
]


class Automatic(Settings):
    """Whichever of the policies and equivalent plans the simulator finds best for the class's objective, as the class is now.

    It begins with the objective's own (`configs.classes.objectives`) and the plan that is declared; `scheduler.tuning` says when they are
    left for others.
    """

    kind: Literal["auto"] = "auto"
    gain: Annotated[float, Field(ge=0.01, le=0.9)] = 0.1
    """By which part another has to do better, to be worth a switch: forecasts of one run differ by some percent."""

    steady: Annotated[int, Field(ge=1, le=50)] = 3
    """How many times in a row it has to."""

    every_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Time from one comparison to the next, at least: a comparison takes a second of another processor or so."""


ClassPolicy = Annotated[PolicySettings | Automatic, Field(discriminator="kind")]
"""What a class may say."""

POLICY_MODELS: tuple[type[Settings], ...] = get_args(get_args(PolicySettings)[0])
POLICY_KINDS: tuple[str, ...] = tuple(model.model_fields["kind"].default for model in POLICY_MODELS)
CLUSTERED_KINDS: tuple[str, ...] = tuple(
    model.model_fields["kind"].default for model in POLICY_MODELS if issubclass(model, PrioritySearch)
)
"""Policies that have `clusters`."""


POLICY: TypeAdapter[PolicySettings] = TypeAdapter(PolicySettings)


def policy_of(name: str, clusters: int = 0) -> PolicySettings:
    """The settings of a policy by its name, as an option on a command line gives it: `hr`, `fas:beta=0.25`."""
    usual = {"clusters": clusters} if clusters else {}
    return settings_of_text(
        name, POLICY, kinds=POLICY_KINDS, what="policy", example="fas:beta=0.25", usual=usual
    )


def checked_policy_name(name: str) -> str:
    try:
        policy_of(name)
    except InvalidInput as problem:
        raise in_a_file(problem, "policy") from None
    return name


PolicyName = Annotated[str, Field(max_length=200), AfterValidator(checked_policy_name)]
"""A policy by its name, with settings that are not the usual ones: `fas:beta=0.25`."""


def policy_text(settings: PolicySettings) -> str:
    """A policy by its name, with the settings that are not the usual ones: what `policy_of` reads."""
    settings_set = settings.model_dump(exclude={"kind"}, exclude_defaults=True)
    return (
        settings.kind
        + (":" if settings_set else "")
        + ",".join(f"{name}={value}" for name, value in settings_set.items())
    )
