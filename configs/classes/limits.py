"""What the queries of a class may hold, so that nothing one tenant asks for can harm another."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from configs.base import Settings

# Above it JSON has not every whole number.
WHOLE_MAX = (1 << 53) - 1
Count = Annotated[int, Field(ge=1, le=WHOLE_MAX)]
# Fewer hold too little of one commit.
ResultBytes = Annotated[int, Field(ge=1 << 20, le=WHOLE_MAX)]
RESULT_BYTES = 256 << 20


class ClassLimits(Settings):
    """What does not fit is refused and counted; the class goes on with what it has."""

    queries: Count = 1000
    """Queries registered at one time."""

    groups: Count = 1_000_000
    """Keys of groups and joins that all operators hold together."""

    state_bytes: Count = 512 * 1024 * 1024
    """Memory of panes, row windows and join sides together; a quarter of it is for the tuples queued between operators."""

    result_bytes: ResultBytes | None = None
    """Memory of the answers kept for readers, a shard; None: as much as the system gives everybody."""

    def filled(self) -> ClassLimits:
        """With what applies where nothing is said."""
        return self.model_copy(update={"result_bytes": self.result_bytes or RESULT_BYTES})
