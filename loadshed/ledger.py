"""The account of every tuple, in which always offered = delivered + shed + late + rejected + failed + queued.

`offered` is counted at the door. A tuple is *delivered* when a source operator has taken it into the network,
*shed* when the load manager dropped it (at the door or from the queue), *late* when its window had already been closed,
*rejected* when it could not be accepted (bad row, full queue), and *failed* when it was lost after it had been accepted.
*Queued* tuples are not counted here but measured from the queues, so that the equation is a real check.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add


@dataclass(slots=True)
class TupleLedger:
    """Counts of the tuples of one class and stream, by their fate."""

    offered: int = 0
    delivered: int = 0
    shed: int = 0
    late: int = 0
    rejected: int = 0
    failed: int = 0

    def closes(self, queued: int) -> bool:
        return self.offered == self.accounted() + queued

    def accounted(self) -> int:
        """Return the number of tuples that are no longer queued."""
        return self.delivered + self.shed + self.late + self.rejected + self.failed

    def lost(self) -> int:
        """Return the number of tuples that contribute to no answer."""
        return self.shed + self.late + self.rejected + self.failed

    def __add__(self, other: TupleLedger) -> TupleLedger:
        return TupleLedger(*map(add, astuple(self), astuple(other)))
