"""Rows of a query as an iterator, page by page.

Numbered properties:
1. Rows come in their order, each once, whatever happens to the connection meanwhile: a page is asked for by the cursor
   after the one that has come.
2. Rows that were forgotten before they could be read are never passed over in silence: RowsForgotten is raised, or told to
   whoever asked for that.
3. No more than one page of rows is held, however many there are and however slowly they are taken.
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
# A poll comes back by then, so that nobody in between takes the connection for a dead one.
POLL_S = 20
# How long a reader that follows waits for a service that does not answer: longer than it takes to start anew.
PATIENCE_S = 60.0

Tell = Callable[[RowsForgotten], None]


class RemoteResults(Iterator[dict[str, Any]]):
    """Rows of a query, one after the other."""

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
        self._next, self._has_begun = after, False
        self._end: str | None = None
        self.is_over = False
        """Whether all is read that was to be read."""
        self.is_restarted = False
        """True once a cursor was of an earlier life of the query, whose rows are numbered from 0 again."""
        self.is_deleted = False
        """True once the query that was being read has been deleted."""
        self.columns: list[str] = []
        """Names, once the first page is there."""

    @property
    def cursor(self) -> str | None:
        """Of the last row of the page that is being given; to read on from there another time."""
        return self._next

    def __next__(self) -> dict[str, Any]:
        while (row := next(self._page, None)) is None:
            if self.is_over:
                raise StopIteration
            self._page = iter(self.page())
        return row

    def page(self) -> list[dict[str, Any]]:
        """The rows after those that have come, as many as come together; empty if there are none yet."""
        if not self._follow and self._end is None:
            self._end = self._told("latest", 1)["next"] or ""
        most = ROWS_PAGE if self._left is None else min(ROWS_PAGE, self._left)
        try:
            answer = self._told(self._next, most, None if self._next else self._tail)
        except RowsForgotten as lost:
            if self._forgotten is None or not lost.next:
                raise
            self._next = lost.next
            self._forgotten(lost)
            return []
        except UnknownName:
            if not self._has_begun:
                raise
            # It was there, and is not any more.
            self.is_over = self.is_deleted = True
            return []
        rows: list[dict[str, Any]] = answer["rows"]
        self._has_begun, self._next = True, answer["next"] or self._next
        self.is_restarted |= answer.get("restarted", False)
        self.columns = [column["name"] for column in answer["columns"]]
        self.is_over = not self._follow and (not rows or has_reached(self._next, self._end))
        if self._left is not None:
            self._left -= len(rows)
            self.is_over |= self._left <= 0
        return rows

    def _told(self, after: str | None, limit: int, tail: int | None = None) -> dict[str, Any]:
        """What the service tells, as soon as it can be reached; who follows waits for that."""
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
    """Whether all is read that was there at the beginning: what comes faster than it is read would have no end."""
    here, there = (numbers_of(position or "") for position in (cursor, end))
    return bool(there) and len(here) == len(there) and all(map(operator.ge, here, there))


def numbers_of(cursor: str) -> list[int]:
    """The last row that was read, by unit; empty if that is not known of each."""
    parts = [re.match(r"-?[0-9]+", part) for part in cursor.split(",")]
    return [int(part[0]) for part in parts if part is not None] if all(parts) else []
