"""What an operator is.

    process(train)   one bounded step: the results of these tuples, None for nothing to pass on
    wants(time)      whether progress of event time to `time` alone would make it do something
    snapshot()       its state, to be given to restore() of an operator built from the same plan

A result carries the arrival time of the tuple that caused it. Progress (`train.watermark`, and the `causes` of it) is
passed on even when every tuple is filtered.
"""

from __future__ import annotations

from typing import Any, Protocol

from engine.data.train import Train


class Operator(Protocol):
    """One box of the network."""

    def process(self, train: Train) -> Train | None: ...

    def wants(self, time: int) -> bool: ...

    def snapshot(self) -> Any:
        """All it knows, which is not copied: who lets it go on has to do that first."""
        ...

    def restore(self, state: Any) -> None: ...


class Stateless:
    """An operator whose results depend on the train alone."""

    def wants(self, time: int) -> bool:
        return False

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        assert state is None
