"""What a level-2 policy is.

A policy keeps the set of operators that have input and answers one question: which of them runs next. It hears
of a change when it happens, so that a decision does not have to look at every operator:

    rank(believed)         statistics have changed: priorities anew (rare, once a load cycle at most)
    extend(believed, changed)
                           there are more operators, without input; only these and the others among `changed`
                           have other segments than before
    ready(operator, head)  the operator has input and its oldest tuple arrived at `head`; also when only the
                           head has changed
    idle(operator)         it has none left
    pending(operator, tuples)
                           so many tuples wait at the operator, told before ready() whenever the number has changed;
                           only to policies that count (`CountingPolicy`), so that the others do not pay for it
    pick(now)              the operator to run, NONE if none is ready; the caller runs it and reports with
                           ready() or idle()

Properties every policy has (`tests/property/test_policies.py`):
1. pick returns a ready operator whenever there is one, and NONE otherwise.
2. The same calls give the same picks; ties go to the lower operator number unless the policy says otherwise.
3. No static policy looks at `now`.
4. An extended policy picks what one over the whole network from the beginning would pick.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from scheduler.operators.network import NetworkEstimates

NONE = -1


class Policy(Protocol):
    """One level-2 policy over the operators of one class."""

    def rank(self, believed: NetworkEstimates) -> None: ...

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None: ...

    def ready(self, operator: int, head: float) -> None: ...

    def idle(self, operator: int) -> None: ...

    def pick(self, now: float) -> int: ...


@runtime_checkable
class CountingPolicy(Policy, Protocol):
    """A policy that goes by how many tuples wait."""

    def pending(self, operator: int, tuples: int) -> None: ...
