"""Protocol of level-2 policies.

A policy keeps the set of operators that have input and chooses the one that runs next. It is informed of
each change, so that a decision does not have to check every operator:

    rank(believed)         statistics have changed, so priorities are computed again (at most once per load cycle)
    extend(believed, changed)
                           operators without input were added; only the operators in `changed`, which include the new
                           ones, have changed segments
    ready(operator, head)  the operator has input and its oldest tuple arrived at `head`; also called when only
                           `head` has changed
    idle(operator)         the operator has no input left
    pending(operator, tuples)
                           the number of tuples waiting at the operator has changed; called before ready(), and only for
                           policies that need the number (`CountingPolicy`), to save time for others
    pick(now)              returns the operator to run, or NONE if no operator is ready; the caller runs it and then calls
                           ready() or idle()

Properties of every policy (`tests/property/test_policies.py`):
1. pick returns a ready operator if there is one, and NONE otherwise.
2. The same calls lead to the same picks; among equals the lower operator number wins unless the policy says otherwise.
3. Static policies do not depend on `now`.
4. An extended policy makes the same picks as a policy that had the whole network from the beginning.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from scheduler.operators.network import NetworkEstimates

NONE = -1


class Policy(Protocol):
    """Level-2 policy over the operators of one class."""

    def rank(self, believed: NetworkEstimates) -> None: ...

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None: ...

    def ready(self, operator: int, head: float) -> None: ...

    def idle(self, operator: int) -> None: ...

    def pick(self, now: float) -> int: ...


@runtime_checkable
class CountingPolicy(Policy, Protocol):
    """Policy that needs the number of waiting tuples."""

    def pending(self, operator: int, tuples: int) -> None: ...
