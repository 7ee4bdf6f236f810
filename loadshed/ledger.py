"""The account of every tuple: offered = delivered + shed + late + rejected + failed + queued. Always.

`offered` is counted at the door. A tuple is *delivered* when a source operator has taken it into the network,
*shed* when the load manager dropped it (at the door or from the queue), *late* when its window was gone, *rejected*
when it could not be accepted (bad row, full queue), *failed* when it was lost inside after it had been accepted.
*Queued* is not counted here: it is measured from the queues themselves, so that closing is a check and not a
definition.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TupleLedger:
    """One class and stream."""

    offered: int = 0
    delivered: int = 0
    shed: int = 0
    late: int = 0
    rejected: int = 0
    failed: int = 0

    def closes(self, queued: int) -> bool:
        return self.offered == self.accounted() + queued

    def accounted(self) -> int:
        """Tuples that have met their fate."""
        return self.delivered + self.shed + self.late + self.rejected + self.failed

    def lost(self) -> int:
        """Tuples that no answer will ever know of."""
        return self.shed + self.late + self.rejected + self.failed

    def __add__(self, other: TupleLedger) -> TupleLedger:
        return TupleLedger(
            offered=self.offered + other.offered,
            delivered=self.delivered + other.delivered,
            shed=self.shed + other.shed,
            late=self.late + other.late,
            rejected=self.rejected + other.rejected,
            failed=self.failed + other.failed,
        )
