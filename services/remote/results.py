"""Iterator over the rows of a query's results, which fetches one page of rows at a time.

Numbered properties:
1. Rows come in order and each once, even if the connection breaks: each page is requested with the cursor of the previous page.
2. Rows that were forgotten before they could be read are never skipped silently: RowsForgotten is raised, or passed to the
   callback `forgotten`.
3. At most one page of rows is in memory, even if there are many pages or the reader is slow.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from actors.runtime.backoff import Backoff
from configs.errors import Away, UnknownName
from services.remote.wire import RowsForgotten, Wire

ROWS_PAGE = 10_000
# Maximum seconds of a long poll; a proxy may close a connection that is silent for longer.
POLL_S = 20
# Seconds for which a reader with `follow` retries while the service is away; this is longer than a restart of the service takes.
PATIENCE_S = 60.0

Tell = Callable[[RowsForgotten], None]


class RemoteResults(Iterator[dict[str, Any]]):
    """Iterator over the rows of a query's results."""

    def __init__(
        self,
        wire: Wire,
        path: str,
        *,
        after: str | None,
        follow: bool,
        forgotten: Tell | None,
        patience_s: float,
        limit: int | None = None,
        tail: int | None = None,
    ) -> None:
        self._left, self._tail = limit, tail
        self._wire, self._path, self._follow = wire, path, follow
        self._forgotten, self._patience_s = forgotten, patience_s
        self._page: Iterator[dict[str, Any]] = iter(())
        self.cursor = after
        """Cursor after the current page, with which another reader can continue."""
        self._end: str | None = None
        self._has_begun = False
        self.is_over = False
        """True once all requested rows have been read."""
        self.is_restarted = False
        """True once the query has restarted during reading, so that its rows are numbered from 0 again."""
        self.is_deleted = False
        """True once the query has been deleted during reading."""
        self.columns: list[str] = []
        """Names of the columns; empty before the first page."""

    def __next__(self) -> dict[str, Any]:
        while (row := next(self._page, None)) is None:
            if self.is_over:
                raise StopIteration
            self._page = iter(self.page())
        return row

    def page(self) -> list[dict[str, Any]]:
        """Return the next page of rows; empty if there are no further rows yet."""
        if not self._follow and self._end is None:
            self._end = self._told("latest", 1)["next"] or ""
        most = ROWS_PAGE if self._left is None else min(ROWS_PAGE, self._left)
        try:
            answer = self._told(self.cursor, most, None if self.cursor else self._tail)
        except RowsForgotten as lost:
            if self._forgotten is None or not lost.next:
                raise
            self.cursor = lost.next
            self._forgotten(lost)
            return []
        except UnknownName:
            if not self._has_begun:
                raise
            # The query is unknown now but existed when reading began, so it has been deleted.
            self.is_over = self.is_deleted = True
            return []
        rows: list[dict[str, Any]] = answer["rows"]
        self._has_begun, self.cursor = True, answer["next"] or self.cursor
        self.is_restarted |= answer.get("restarted", False)
        self.columns = [column["name"] for column in answer["columns"]]
        self.is_over = not self._follow and (not rows or has_reached(self.cursor, self._end))
        if self._left is not None:
            self._left -= len(rows)
            self.is_over |= self._left <= 0
        return rows

    def _told(self, after: str | None, limit: int, tail: int | None = None) -> dict[str, Any]:
        """Return the service's response. A reader with `follow` retries while the service cannot be reached."""
        wait_s = POLL_S if self._follow else 0
        backoff, deadline = Backoff(least_s=0.1, most_s=5.0), time.monotonic() + self._patience_s
        params = {"after": after, "limit": limit, "wait_s": wait_s or None, "tail": tail}
        while True:
            try:
                answer = self._wire.call("GET", self._path, params=params, wait_s=wait_s)
            except Away:
                pause_s = backoff.failed()
                if not self._follow or time.monotonic() + pause_s > deadline:
                    raise
                time.sleep(pause_s)
            else:
                content: dict[str, Any] = orjson.loads(answer.content)
                return content


def has_reached(cursor: str | None, end: str | None) -> bool:
    """Return True if all rows before the cursor `end` have been read. `end` follows the last row that existed when reading began."""
    here, there = (numbers_of(position or "") for position in (cursor, end))
    return bool(there) and len(here) == len(there) and all(map(operator.ge, here, there))


def numbers_of(cursor: str) -> list[int]:
    """Return the number of the last row read in each shard; empty if the cursor lacks this number for a shard."""
    parts = [re.match(r"-?[0-9]+", part) for part in cursor.split(",")]
    return [int(part[0]) for part in parts if part is not None] if all(parts) else []
