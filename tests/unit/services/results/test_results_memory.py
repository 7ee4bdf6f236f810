"""Readers of answers, however slow, keep no memory of rows that the log has forgotten."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from services.results.cursors import OLDEST
from services.results.encoding import as_json_rows
from services.results.events import events
from services.results.fanout import PieceAddress, Pieces, RowsPiece
from services.results.log_reader import Desk, QueryAddress
from services.results.places import AnswersPlace
from services.results.results import Results, shared
from tests.support.answer_logs import ClassLog

KIB = 1024
ASKED = QueryAddress("gold", "q")


def forgotten_and_mapped(dirs: RunDirs) -> list[str]:
    """Return the deleted log segments that this process still maps."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return [line for line in maps if str(dirs.classes) in line and line.endswith("(deleted)")]


def test_segments_that_the_log_forgot_are_unmapped_when_readers_have_left(dirs: RunDirs) -> None:
    log = ClassLog(dirs.class_log("gold"), 64 * KIB)
    desk = Desk(LocalPlaces(dirs), lambda: "", hold_s=0.0)
    for _ in range(20):
        log.commit(20)
    ((place, seen),) = desk.view(ASKED).values()
    found = desk.some(place, "q", 0, 10)
    assert found is not None
    assert (as_json_rows(found.batches).count(b"_seq"), seen.given) == (10, 400)
    del found
    for _ in range(200):
        log.commit(50)
    assert forgotten_and_mapped(dirs)
    desk.hold_s = 1000.0
    desk.look([ASKED])
    # A segment that was just read stays mapped in memory, because the reader may continue to read the segment.
    assert forgotten_and_mapped(dirs)
    desk.hold_s = 0.0
    desk.look([ASKED])
    assert forgotten_and_mapped(dirs) == []
    log.close()


def test_for_a_stalled_reader_only_one_block_of_rows_is_kept_in_memory(dirs: RunDirs) -> None:
    """A block is read from the log only once the reader has taken the previous block. Rows that are gone by then become a gap."""
    log = ClassLog(dirs.class_log("gold"), 64 * KIB)

    async def read() -> list[bytes]:
        results = Results(LocalPlaces(dirs), piece_rows=16)
        stream = events(results, ASKED, OLDEST)
        found = [await anext(stream) for _ in range(3)]
        for _ in range(200):
            log.commit(50)
        made = results.pieces.made
        for _ in range(3):
            await asyncio.sleep(0)
        assert results.pieces.made == made
        found += [await anext(stream) for _ in range(2)]
        await stream.aclose()
        results.close()
        return found

    for _ in range(10):
        log.commit(16)
    kinds = [event.split(b"\n")[1] for event in asyncio.run(read())[1:]]
    assert kinds == [b"event: rows", b"event: rows", b"event: gap", b"event: rows"]
    log.close()


def test_blocks_of_rows_in_the_cache_are_made_once_and_limited_in_bytes(dirs: RunDirs) -> None:
    log = ClassLog(dirs.class_log("gold"), 4096 * KIB)
    log.commit(1000)
    place = AnswersPlace("gold", dirs)

    async def read() -> tuple[list[int], int]:
        results = Results(LocalPlaces(dirs), piece_rows=100)
        pieces = Pieces(lambda wanted: results._run(results._make, wanted), 100, bytes_max=10_000)
        mark = results._desk.view(ASKED)[0][1].mark
        wanted = [PieceAddress(place, "q", mark, row, 1000) for row in range(0, 1000, 100)]
        for _ in range(2):
            await asyncio.gather(*(pieces.get(wanted[0]) for _ in range(20)))
        made = [pieces.made]
        for address in wanted:
            await pieces.get(address)
        await pieces.get(wanted[0])
        made.append(pieces.made)
        results.close()
        return made, sum(pieces._sizes.values())

    made, held = asyncio.run(read())
    # The first block was dropped to make room for the other blocks, so the first block is made a second time.
    assert made == [1, 11]
    assert 0 < held <= 10_000
    log.close()


def test_memory_of_many_small_blocks_of_rows_in_the_cache_is_limited() -> None:
    """A small block takes far more memory than its rows, so the limit must count all memory of a block."""
    place = AnswersPlace("gold", None)

    async def made(wanted: PieceAddress) -> RowsPiece:
        return RowsPiece(wanted.mark, wanted.row, wanted.row + 1, b"{}")

    async def read() -> int:
        pieces = Pieces(made, bytes_max=1 << 20)
        tracemalloc.start()
        for row in range(5000):
            await pieces.get(PieceAddress(place, "q", "5ead07c1", row, 1))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held

    assert 0 < asyncio.run(read()) <= 1.5 * (1 << 20)


def test_limit_of_rows_is_shared_fairly_among_shards() -> None:
    assert dict(shared(100, {0: 1000, 1: 1000})) == {0: 50, 1: 50}
    assert dict(shared(100, {0: 1000, 1: 10, 2: 1000})) == {0: 45, 1: 10, 2: 45}
    assert dict(shared(100, {0: 5, 1: 10})) == {0: 5, 1: 10}
    assert sum(most for _, most in shared(1, {0: 5, 1: 10, 2: 3})) == 1
    assert shared(10, {}) == []
