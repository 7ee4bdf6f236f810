"""Interface of an operator, which takes a train of tuples and returns a train of results, or None.

A result carries the arrival time of the tuple that caused it. The progress of event time (`train.watermark` and its
`causes`) is passed on even when every tuple is filtered out. An operator has three methods:

    process(train)   return the results for these tuples, or None if there is nothing to pass on; the work per call is limited
    wants(time)      return True if a watermark of `time` makes the operator do something, even without tuples
    snapshot()       return the state, which restore() of an operator built from the same plan accepts
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.data.train import Train


class Operator(Protocol):
    """Interface that every operator of the network implements."""

    def process(self, train: Train) -> Train | None: ...

    def wants(self, time: int) -> bool: ...

    def snapshot(self) -> Any:
        """Return the operator's state without copying; the caller must copy the state before the operator runs again."""
        ...

    def restore(self, state: Any) -> None: ...


class Progressive:
    """Base of operators that run for every watermark, even if it comes without tuples."""

    def wants(self, time: int) -> bool:
        return True


class Stateless:
    """Base of operators without state: their results depend on the train alone."""

    def wants(self, time: int) -> bool:
        return False

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None
