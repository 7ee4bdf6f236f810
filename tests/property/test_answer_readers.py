"""If a log of answers drops its oldest rows, each reader gets each stored row once, and a notice about the dropped rows."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.host.answer_reader import AnswerReader
from actors.log.commit_format import answers_of
from actors.log.segment_log import Reader
from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from services.results.cursors import Spot, cursor_of
from services.results.events import round_of
from services.results.log_reader import QueryAddress
from services.results.results import Forgotten, Results
from tests.support.answer_logs import ClassLog, answer_rows

BYTES_MAX = 64 << 10
ASKED = QueryAddress("gold", "q")


def rows_there(folder: Path, text: str) -> set[int]:
    """Read the whole log, and return the numbers of the rows that contain `text`.

    The rows have another text each time the query is removed and added again.
    """
    log, found = Reader(folder), set()
    for _, payload in log.frames(log.first):
        for answer in answers_of(payload, "q"):
            numbers, texts = (column.data for column in answer.train.columns)
            if texts[0].as_py()[0] == text:
                found.update(numbers.tolist())
    return found


@dataclass
class SlowReader:
    """Reader with a certain speed, and with the number of the last row that the reader received since the query was last added."""

    spots: dict[int, Spot]
    end: int | None
    """Number after the last row that the reader received, or None before the first row."""

    def receive(self, event: bytes, folder: Path, text: str) -> None:
        """Check the next event that the reader receives. Rows that were written since the query was last added contain `text`."""
        id_, kind, data = event.decode().rstrip().split("\n")
        shown = json.loads(data.removeprefix("data: "))
        if shown.get("anew"):
            assert shown == {"unit": "gold", "anew": True}
            self.end = 0
        elif kind == "event: gap":
            self._advance(shown["first"], shown["next"])
            assert shown["missing"] == shown["next"] - shown["first"]
            assert not rows_there(folder, text) & set(range(shown["first"], shown["next"]))
        else:
            first, following = shown["rows"][0]["_seq"], shown["rows"][-1]["_seq"] + 1
            self._advance(first, following)
            assert shown["rows"] == [
                {"_seq": row, "_kept": 1.0, "n": row, "s": f"{text}{row}"} for row in range(first, following)
            ]
        assert id_.startswith(f"id: {(self.end or 0) - 1}.")

    def _advance(self, first: int, following: int) -> None:
        assert self.end in (None, first)
        assert following > first
        self.end = following


class ALogAndItsReaders(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.temporary = TemporaryDirectory()
        self.dirs = RunDirs(Path(self.temporary.name), "s", "n")
        self.folder = self.dirs.class_log("gold")
        self.log = ClassLog(self.folder, BYTES_MAX)
        self.results = Results(LocalPlaces(self.dirs), piece_rows=16)
        self.plain = AnswerReader(self.dirs, "gold")
        self.readers: list[SlowReader] = []

    def teardown(self) -> None:
        self.results.close()
        self.loop.run_until_complete(asyncio.sleep(0.001))
        self.loop.close()
        self.log.close()
        self.temporary.cleanup()

    # -- actions of the class that writes the log

    @rule(rows=st.integers(1, 60), times=st.integers(1, 100), query=st.sampled_from(["q", "q", "other"]))
    def answer(self, rows: int, times: int, query: str) -> None:
        for _ in range(times):
            self.log.commit(rows, query)

    @rule(before=st.integers(0, 20), others=st.sampled_from([0, 1, 100]), after=st.integers(0, 20))
    def answer_more_than_the_log_takes(self, before: int, others: int, after: int) -> None:
        """Commit a few rows, then more rows at once than the log has room for, and then a few rows again."""
        for rows, query, times in ((before, "q", 1), (2000, "q", 1), (1, "other", others), (after, "q", 1)):
            for _ in range(times):
                self.log.commit(rows, query)

    @rule(last=st.integers(0, 20), first=st.integers(0, 20))
    def be_put_anew(self, last: int, first: int) -> None:
        self.log.put_anew(last, first)

    @rule()
    def begin_again(self) -> None:
        """Restart the killed host, which continues its log."""
        self.log.log.close()
        life, given = self.log.life, self.log.given
        self.log = ClassLog(self.folder, BYTES_MAX)
        self.log.life, self.log.given = life, given

    # -- actions of the readers

    @precondition(lambda self: len(self.readers) < 4)
    @rule(row=st.integers(0, 3000), is_latest=st.booleans())
    def come_with_a_cursor(self, row: int, is_latest: bool) -> None:
        row = self.log.given["q"] if is_latest else min(row, self.log.given["q"])
        self.readers.append(SlowReader(dict(cursor_of(f"{row - 1}.{self.mark}")), row))

    @precondition(lambda self: len(self.readers) < 4)
    @rule()
    def come_for_all_that_is_kept(self) -> None:
        self.readers.append(SlowReader({}, None))

    @precondition(lambda self: self.readers)
    @rule(who=st.integers(0, 3), rounds=st.integers(1, 30), meanwhile=st.sampled_from([0, 0, 5, 50]))
    def read(self, who: int, rounds: int, meanwhile: int) -> None:
        self.loop.run_until_complete(self._read(self.readers[who % len(self.readers)], rounds, meanwhile))

    async def _read(self, reader: SlowReader, rounds: int, meanwhile: int) -> None:
        """Check the log once. Then read in a few rounds, and commit new rows between the rounds."""
        with self.results.topics.following(ASKED) as topic:
            await self.results.topics.look(topic)
            there, kept = self.log.given["q"], rows_there(self.folder, self.log.text)
            for _ in range(rounds):
                if meanwhile:
                    self.log.commit(meanwhile)
                received = [event async for event in round_of(self.results, topic, reader.spots)]
                for event in received:
                    reader.receive(event, self.folder, self.log.text)
                if not received:
                    assert reader.end is not None or not kept
                    assert reader.end is None or there <= reader.end <= self.log.given["q"]
                    break

    @rule(row=st.integers(0, 3000), limit=st.integers(1, 100))
    def read_a_page(self, row: int, limit: int) -> None:
        """Read a page of rows from number `row` on. If this row was dropped, check that the error names the first stored row."""
        results = Results(LocalPlaces(self.dirs), piece_rows=16)
        given, kept = self.log.given["q"], rows_there(self.folder, self.log.text)
        row = min(row, given)
        following = next((one for one in range(row, given) if one in kept), given)
        asked = results.page(ASKED, cursor_of(str(row - 1)), limit)
        if following > row:
            with pytest.raises(Forgotten) as caught:
                self.loop.run_until_complete(asked)
            assert [one.as_json() for one in caught.value.missing] == [
                {"unit": "gold", "first": row, "next": following, "missing": following - row}
            ]
            asked = results.page(ASKED, cursor_of(caught.value.next), limit)
        page = self.loop.run_until_complete(asked)
        expected = list(takewhile(kept.__contains__, range(following, min(following + limit, given))))
        assert [row["_seq"] for row in json.loads(b"[%b]" % page.body)] == expected
        assert (page.rows, page.next) == (len(expected), f"{following + len(expected) - 1}.{self.mark}")
        results.close()
        self.loop.run_until_complete(asyncio.sleep(0.001))

    @property
    def mark(self) -> str:
        return self.plain.described("q").mark

    @invariant()
    def plain_reading_gives_what_is_kept(self) -> None:
        kept = sorted(rows_there(self.folder, self.log.text))
        assert [row["n"] for row in answer_rows(self.plain, "q")] == kept
        given = self.log.given["q"]
        assert self.plain.kept("q") == (kept[0] if kept else given, given)


ALogAndItsReaders.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestALogAndItsReaders = ALogAndItsReaders.TestCase
