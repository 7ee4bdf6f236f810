"""What the queries of a class may hold, so that nothing one tenant asks for can harm another."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from configs.base import Settings

Count = Annotated[int, Field(ge=1)]


class ClassLimits(Settings):
    """What does not fit is refused and counted; the class goes on with what it has."""

    queries: Count = 1000
    """Queries registered at one time."""

    groups: Count = 1_000_000
    """Keys of groups and joins that all operators hold together."""

    state_bytes: Count = 512 * 1024 * 1024
    """Memory of panes, row windows and join sides together; a quarter of it is for the tuples queued between operators."""
