"""Policies, which decide which operator of a class runs next: one settings model for each policy, and the union of all
models. The union is the only list of all policies; options, checks, documents and tests are derived from it. A row in
`scheduler.operators.policies.build` names the function that builds each policy. The first sentence of a model's docstring
describes the policy in docs/scenarios.md.

Symbols in formulas:

    S   global selectivity
    C̄   expected cost of a tuple from the operator to the root
    T   ideal cost of a result
    W   time that the oldest tuple has waited
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, TypeAdapter, model_validator

from configs.base import Fraction, Settings
from configs.errors import Contradiction
from configs.setting_text import checked_text, settings_of_text, text_of

Sharing = Literal["pdt", "sum", "max"]
"""Basis of the priority of an operator that several queries share: its priority-defining tree (`pdt`, Sharaf §3.6.2), all
segments behind the operator (`sum`), or only the best segment (`max`)."""

Parts = Annotated[int, Field(ge=1, le=500)]
PushThrough = bool
"""Option of policies: run all operators behind the chosen operator immediately after it, without further decisions."""

Clusters = Annotated[int, Field(ge=0, le=1000)]


class RoundRobin(Settings):
    """Policy that runs every operator with input once per cycle, in cyclic order."""

    kind: Literal["rr"] = "rr"


class FirstComeFirstServed(Settings):
    """Policy that runs first the operator with the oldest tuple. It keeps the longest response time short."""

    kind: Literal["fcfs"] = "fcfs"


class LongestQueueFirst(Settings):
    """Policy that runs first the operator with the longest queue. It keeps all queues short, and needs no estimates."""

    kind: Literal["lqf"] = "lqf"


class ShortestRemaining(Settings):
    """Policy that runs first the operators of results with the shortest ideal processing time (highest 1/T)."""

    kind: Literal["srpt"] = "srpt"


class HighestRate(Settings):
    """Policy that runs first the operator with the most answers per processor time (highest S/C̄). It minimises the mean response
    time, and is the default."""

    kind: Literal["hr"] = "hr"
    sharing: Sharing = "pdt"


class HighestNormalizedRate(Settings):
    """Policy with the priority of `hr`, divided by the ideal processing time of a result (highest S/(C̄·T)). It minimises the mean
    slowdown."""

    kind: Literal["hnr"] = "hnr"
    sharing: Sharing = "pdt"


class Chain(Settings):
    """Policy that runs first the operators that free queue memory fastest (lower envelope of the progress chart). It minimises the
    memory of queues."""

    kind: Literal["chain"] = "chain"


class PathCapacity(Settings):
    """Policy that runs first the path of operators that processes the most tuples per second. It minimises latency (MavStream)."""

    kind: Literal["path"] = "path"


class Segment(Settings):
    """Policy that runs first the part of a path of operators that frees most memory per second. It keeps queues small (MavStream)."""

    kind: Literal["segment"] = "segment"


class SimplifiedSegment(Settings):
    """Policy like `segment`, but with at most two parts per path. It switches operators less often, and needs slightly more memory
    (MavStream)."""

    kind: Literal["simplified-segment"] = "simplified-segment"
    gamma: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """An operator belongs to the first part of a path if it frees more than this fraction of the memory that the operator
    before it frees. The thesis requires a value below 1; the policy `segment` corresponds to 1."""


class FixedPriority(Settings):
    """Policy that runs first the operator with the least slack, which is computed once as deadline minus downstream cost. It gives
    high utility under steady load (Carney)."""

    kind: Literal["fixed"] = "fixed"
    push_through: PushThrough = False


class SlopeSlack(Settings):
    """Policy that runs first the operator with the fastest loss of utility at its expected latency, and among equals the operator with
    the least slack. It gives high utility under bursty load (Carney)."""

    kind: Literal["slope-slack"] = "slope-slack"
    push_through: PushThrough = False


class Bucketed(Settings):
    """Policy like `slope-slack`, but with operators grouped by loss and slack. It is nearly as good, and cheap in large networks
    (Carney)."""

    kind: Literal["bucket"] = "bucket"
    gradients: Parts = 20
    slacks: Parts = 20
    """Number of buckets for slack. In the thesis, 20 buckets are best for a network of 1,000 operators, and 50 buckets for
    10,000 operators."""

    push_through: PushThrough = False


class Superbox(Settings):
    """Policy that runs a whole query after one decision. It needs fewer decisions and fewer calls (Carney)."""

    kind: Literal["superbox"] = "superbox"
    order: Literal["rr", "fcfs", "hr", "fixed"] = "rr"
    """Policy that picks an operator; the whole query of this operator then runs."""

    traversal: Literal["min-cost", "min-latency", "min-memory"] = "min-cost"
    """Order in which the operators of the query run. `min-cost`: each operator once, after all operators that feed it.
    `min-latency`: operators nearest to the answer first, each followed by all operators behind it. `min-memory`: operators
    that free most memory first."""


class PrioritySearch(Settings):
    """Settings for policies with priorities that grow with time. They define how the operator with the highest priority is found
    (Sharaf §3.3.2)."""

    clusters: Clusters = 0
    """Number of clusters (groups) of operators with similar priority; 0 compares every operator on its own."""

    clustering: Literal["logarithmic", "uniform"] = "logarithmic"
    """Division of the range of static priorities into clusters: by equal ratios (`logarithmic`) or by equal differences (`uniform`)."""

    search: Literal["all", "fagin"] = "all"
    """Search for the highest priority: compare all (`all`), or stop when no other can be higher (`fagin`). The result is the same."""

    processing: Literal["single", "clustered"] = "single"
    """Operators that run after a decision: one (`single`), or all operators of the cluster with the same oldest tuple (`clustered`)."""

    @model_validator(mode="after")
    def clusters_are_there(self) -> Self:
        for key, usual in (("clustering", "logarithmic"), ("processing", "single")):
            if not self.clusters and getattr(self, key) != usual:
                title = f"the policy option {key} needs clusters, but `clusters` is 0"
                hint = "add clusters: 12"
                raise Contradiction(title, key, getattr(self, key), hint)
        return self


class LongestStretchFirst(PrioritySearch):
    """Policy that runs first the operator with the longest wait relative to ideal processing time (highest W/T). It keeps the largest
    slowdown small."""

    kind: Literal["lsf"] = "lsf"


class BalanceResponse(PrioritySearch):
    """Policy that runs first the operator with the highest product of the priority of `hr` and the waiting time ((S/C̄)·W). It
    minimises the ℓ2 norm of response times."""

    kind: Literal["brt"] = "brt"
    sharing: Sharing = "pdt"


class BalanceSlowdown(PrioritySearch):
    """Policy that runs first the operator with the highest product of the priorities of `hnr` and `lsf` (S/(C̄·T)·W/T). It minimises
    the ℓ2 norm of slowdowns.

    With `clusters` 0 every ready operator is compared at each decision. With 12 logarithmic clusters, the time of a
    decision does not depend on the number of operators, but the norm is about 5% higher (Sharaf §3.8.3).
    """

    kind: Literal["bsd"] = "bsd"
    sharing: Sharing = "pdt"


class FreshnessAware(Settings):
    """Policy that runs first the operators that are most likely to refresh an output, relative to their cost. It minimises the
    staleness of outputs, weighted by query.

    The priority is (1 − (1−S)^(N^β))/(N^β·C̄), with N tuples waiting, S the selectivity and C̄ the expected cost.

    `beta` 1 favours freshness only; `beta` 0 favours answers per processor time, like the policy `hr`.
    """

    kind: Literal["fas"] = "fas"
    beta: Fraction = 1.0


class EarliestDeadline(Settings):
    """Policy that runs first the operator with the earliest deadline. No result is tardy as long as all deadlines can be met
    (Golab §4.1)."""

    kind: Literal["edf"] = "edf"


class DeadlineOrRate(Settings):
    """Policy that runs late results by `hr` while the next punctual result can wait, and otherwise punctual results by `edf`. It
    minimises tardiness (Sharaf §3.5.2)."""

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
    """Automatic choice: the policy and the plan that the simulator finds best for the class's objective and present load.

    The class begins with the objective's own policy (`configs.classes.objectives`) and the declared plan; `scheduler.tuning`
    decides when to switch.
    """

    kind: Literal["auto"] = "auto"
    gain: Annotated[float, Field(ge=0.01, le=0.9)] = 0.1
    """Fraction by which another choice must be better to be worth a switch; repeated forecasts of a choice differ by some percent."""

    steady: Annotated[int, Field(ge=1, le=50)] = 3
    """Number of comparisons in a row in which another choice must be better before a switch."""

    every_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Minimum seconds from one comparison to the next; a comparison takes about a second of another processor."""


ClassPolicy = Annotated[PolicySettings | Automatic, Field(discriminator="kind")]
"""Declared policy of a class: one of the policies, or `auto` (the class chooses its policy itself)."""

POLICY_MODELS: tuple[type[Settings], ...] = get_args(get_args(PolicySettings)[0])
POLICY_KINDS: tuple[str, ...] = tuple(model.model_fields["kind"].default for model in POLICY_MODELS)
CLUSTERED_KINDS: tuple[str, ...] = tuple(
    model.model_fields["kind"].default for model in POLICY_MODELS if issubclass(model, PrioritySearch)
)
"""Kinds of the policies that have the setting `clusters`."""


POLICY: TypeAdapter[PolicySettings] = TypeAdapter(PolicySettings)


def policy_of(name: str, clusters: int = 0) -> PolicySettings:
    """Return the policy that a text on the command line names, such as `hr` or `fas:beta=0.25`."""
    usual = {"clusters": clusters} if clusters else {}
    return settings_of_text(
        name, POLICY, kinds=POLICY_KINDS, what="policy", example="fas:beta=0.25", usual=usual
    )


PolicyName = Annotated[str, Field(max_length=200), checked_text(policy_of, "policy")]
"""Policy as a text: its kind, and the settings that differ from their defaults, as in `fas:beta=0.25`."""


def policy_text(settings: PolicySettings) -> str:
    """Return the text of a policy that `policy_of` reads: its kind, and the settings that differ from the defaults."""
    return text_of(settings.kind, settings.model_dump(exclude={"kind"}, exclude_defaults=True))
