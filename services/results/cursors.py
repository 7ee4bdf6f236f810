"""How far a reader has come, as text that is given out and brought back.

    41.5ead07c1             the last row that was read, and the mark of the query's answers
    41.5ead07c1,,7.0b5c…    the same of a class of several shards, by shard; nothing of one that has not begun

The mark tells answers from those of a query that had the name before. People may leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from configs.errors import InvalidInput

LATEST = "latest"
SHARDS_MAX = 256
SPOT = re.compile(r"(-1|\d{1,18})(?:\.([0-9a-f]{1,32}))?")


@dataclass(frozen=True, slots=True)
class Spot:
    """In the answers of one unit."""

    row: int
    """The next one."""
    mark: str = ""
    """Empty: of whichever answers there are."""

    def __str__(self) -> str:
        return f"{self.row - 1}.{self.mark}" if self.mark else str(self.row - 1)


Cursor = Mapping[int, Spot]
"""By shard; what is missing is read from the oldest row that is kept."""
OLDEST: Cursor = {}


def cursor_of(text: str) -> Cursor:
    """InvalidInput if it was never given out."""
    parts = text.split(",", SHARDS_MAX)
    spots: dict[int, Spot] = {}
    for shard, part in enumerate(parts):
        match = SPOT.fullmatch(part)
        if match is not None:
            spots[shard] = Spot(int(match[1]) + 1, match[2] or "")
        elif part or len(parts) == 1 or shard == SHARDS_MAX:
            hint = f"give `next` of an answer or `id` of an event, or `{LATEST}`; without it, the oldest rows come first"
            raise InvalidInput("not a cursor", "?after", text, hint)
    return spots


def text_of(cursor: Cursor) -> str | None:
    """None before anything is known to read on from."""
    if not cursor:
        return None
    return ",".join(str(cursor[shard]) if shard in cursor else "" for shard in range(max(cursor) + 1))
