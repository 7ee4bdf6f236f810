"""Cursors: texts that hold the position of a reader in a query's answers, and that clients send back to continue from this position.

In `41.5ead07c1`, 41 is the number of the last row read, and 5ead07c1 is the identifier (mark) of the query's answers. The cursor
`41.5ead07c1,,7.0b5c…` has a position per shard, in order; the position is empty for a shard without answers yet.

The mark distinguishes the answers from those of an earlier query of the same name. A cursor that a user writes need not have it.
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
    """Position of a reader in the answers of one unit (a class or a shard of a class)."""

    row: int
    """Number of the next row to read."""
    mark: str = ""
    """Identifier that these answers do not share with those of an earlier query of the same name; an empty text fits any answers."""

    def __str__(self) -> str:
        return f"{self.row - 1}.{self.mark}" if self.mark else str(self.row - 1)


Cursor = Mapping[int, Spot]
"""Position by shard number; a shard without a position is read from its oldest kept row."""
OLDEST: Cursor = {}


def cursor_of(text: str) -> Cursor:
    """Parse a cursor; raise InvalidInput if the text is not a cursor."""
    parts = text.split(",", SHARDS_MAX)
    spots: dict[int, Spot] = {}
    for shard, part in enumerate(parts):
        match = SPOT.fullmatch(part)
        if match is not None:
            spots[shard] = Spot(int(match[1]) + 1, match[2] or "")
        elif part or len(parts) == 1 or shard == SHARDS_MAX:
            hint = f"give `next` of an answer, `id` of an event, or `{LATEST}`; omit the cursor to begin with the oldest rows"
            raise InvalidInput("the text is not a cursor of Weir", "?after", text, hint)
    return spots


def text_of(cursor: Cursor) -> str | None:
    """Return the cursor as text; None if the cursor has no positions yet."""
    if not cursor:
        return None
    return ",".join(str(cursor[shard]) if shard in cursor else "" for shard in range(max(cursor) + 1))
