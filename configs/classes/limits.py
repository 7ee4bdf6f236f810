"""Limits on the memory and the number of queries of a class, so that no tenant can harm other tenants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from configs.base import Settings

# Largest whole number up to which JSON represents every whole number exactly.
WHOLE_MAX = (1 << 53) - 1
Count = Annotated[int, Field(ge=1, le=WHOLE_MAX)]
# Smallest value that a memory limit may have, 1 MiB: less memory may be too small for a single commit.
ResultBytes = Annotated[int, Field(ge=1 << 20, le=WHOLE_MAX)]
RESULT_BYTES = 256 << 20


class ClassLimits(Settings):
    """Limits of a class. Tuples that would exceed a limit are refused and counted; queries continue without them."""

    queries: Count = 1000
    """Maximum number of queries that are registered at the same time."""

    groups: Count = 1_000_000
    """Maximum number of keys of groups and joins that all operators hold together."""

    state_bytes: Count = 512 * 1024 * 1024
    """Memory in bytes of windows, joins and queues together. A quarter of this memory is for tuples queued between operators."""

    result_bytes: ResultBytes | None = None
    """Memory in bytes of the answers kept for readers, per shard. Default: the system's `results_bytes`."""

    def filled(self) -> ClassLimits:
        """Return the limits; if `result_bytes` is left out, the default is filled in."""
        return self.model_copy(update={"result_bytes": self.result_bytes or RESULT_BYTES})
