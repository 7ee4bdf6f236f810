"""A log of frames that outlives its writer."""

import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from actors.log.segment import LogMissing
from actors.log.segment_cache import LOOK_TIMES
from actors.log.segment_log import (
    KEEP_NONE,
    ROLLS,
    SPARE,
    FrameForgotten,
    LogFull,
    LogTaken,
    Reader,
    SegmentWriter,
    frames_left,
)
from actors.runtime.run_dirs import shared_memory
from tests.support.checkout import ROOT

KIB = 1024
# Sizes of logs with room for 64 and 8 whole segments of 16 KiB.
SEGMENTS_64 = 64 * 16 * KIB + ROLLS
SEGMENTS_8 = 8 * 16 * KIB + ROLLS

# Program that appends frames with known contents, and prints the number of each frame once it is published.
ENDLESS = """
import os, sys
from pathlib import Path
from actors.log.segment_log import SegmentWriter
log = SegmentWriter(Path(sys.argv[1]), segment_bytes=64 * 1024, bytes_max=1 << 30)
os.write(1, b"open\\n")
while True:
    number = log.next
    log.append([b"%d " % number, bytes([number % 251]) * (number * 7919 % 9000)])
    os.write(1, b"%d\\n" % number)
"""


# Program like APPENDER, with a log that keeps only the last frames.
ENDLESS_FORGETTING = ENDLESS.replace("bytes_max=1 << 30", "bytes_max=520 * 1024, keep_from=2**63")

# Program that appends up to nine frames at a time, and prints the number of the last frame.
ENDLESS_TOGETHER = """
import os, sys
from pathlib import Path
from actors.log.segment_log import SegmentWriter
log = SegmentWriter(Path(sys.argv[1]), segment_bytes=64 * 1024, bytes_max=1 << 30)
os.write(1, b"open\\n")
while True:
    first = log.next
    size = 1 + first * 31 % 9
    parts = [[b"%d/%d " % (place, size), bytes((first + place) * 7919 % 9000)] for place in range(size)]
    log.append_all([(each, sum(map(len, each))) for each in parts])
    os.write(1, b"%d\\n" % (log.next - 1))
"""


def expected(number: int) -> bytes:
    return b"%d " % number + bytes([number % 251]) * (number * 7919 % 9000)


def read(reader: Reader, start: int = 0) -> list[tuple[int, bytes]]:
    return [(number, bytes(payload)) for number, payload in reader.frames(start)]


def fill(log: SegmentWriter) -> None:
    while True:
        log.append([bytes(3000)])


def test_reader_gets_every_frame_as_it_was_appended(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path)
    reader = Reader(tmp_path)
    assert read(reader) == []
    assert [log.append([b"one"]), log.append([b"tw", b"o"]), log.append([])] == [0, 1, 2]
    assert read(reader) == [(0, b"one"), (1, b"two"), (2, b"")]
    assert (reader.first, reader.next) == (0, 3)
    assert read(reader, 3) == []
    log.append([b"four"])
    assert read(reader, 3) == [(3, b"four")]
    assert read(reader, 1) == [(1, b"two"), (2, b""), (3, b"four")]


def test_payloads_of_frames_begin_at_multiples_of_64_bytes(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path)
    for size in range(130):
        log.append([bytes(size + 1)])
    places = [
        np.frombuffer(payload, np.uint8).__array_interface__["data"][0] % 64
        for _, payload in Reader(tmp_path).frames(0)
    ]
    assert places == [0] * 130


def test_log_continues_over_segments_and_each_large_frame_gets_its_own_segment(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, segment_bytes=16 * KIB, bytes_max=SEGMENTS_64)
    sizes = [100, 40 * KIB, 5000, 9000, 3000, 200 * KIB, 1]
    for place, size in enumerate(sizes):
        log.append([bytes([place]) * size])
    found = read(Reader(tmp_path))
    assert found == [(place, bytes([place]) * size) for place, size in enumerate(sizes)]
    assert len(list(tmp_path.glob("*.segment"))) == 6


def test_frame_with_more_parts_than_a_system_call_accepts_is_written(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path)
    log.append([b"%d," % number for number in range(5000)])
    assert read(Reader(tmp_path)) == [(0, b"".join(b"%d," % number for number in range(5000)))]


def test_reopened_log_continues_after_the_last_frame(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, segment_bytes=16 * KIB)
    reader = Reader(tmp_path)
    for number in range(20):
        log.append([bytes([number]) * 3000])
        log.close()
        log = SegmentWriter(tmp_path, segment_bytes=16 * KIB)
        assert log.next == number + 1
    assert read(reader) == [(number, bytes([number]) * 3000) for number in range(20)]


def test_second_writer_of_a_log_is_refused(tmp_path: Path) -> None:
    first = SegmentWriter(tmp_path)
    with pytest.raises(LogTaken):
        SegmentWriter(tmp_path)
    first.close()
    SegmentWriter(tmp_path).close()


def test_reading_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogMissing):
        Reader(tmp_path / "none")


def test_reading_a_forgotten_frame_fails_but_frames_already_read_stay_valid(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, segment_bytes=16 * KIB, bytes_max=SEGMENTS_64)
    for number in range(40):
        log.append([bytes([number]) * 3000])
    reader = Reader(tmp_path)
    held = [payload for _, payload in islice(reader.frames(0), 5)]
    log.forget(below=22)
    assert [payload[0] for payload in held] == [0, 1, 2, 3, 4]
    assert log.first == Reader(tmp_path).first == 20
    with pytest.raises(FrameForgotten, match="continue at frame 20") as caught:
        read(reader, 7)
    assert pickle.loads(pickle.dumps(caught.value)).next == 20
    assert [number for number, _ in reader.frames(20)] == list(range(20, 40))
    assert [log.append([b"x"]), log.next] == [40, 41]


def test_full_log_refuses_frames_until_old_frames_are_forgotten(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, bytes_max=64 * KIB)
    with pytest.raises(LogFull, match="has no room for"):
        fill(log)
    before = log.next
    assert log.bytes <= 64 * KIB
    with pytest.raises(LogFull):
        log.append([bytes(3000)])
    log.forget(below=before)
    assert log.append([bytes(3000)]) == before


def test_full_log_that_keeps_nothing_for_readers_forgets_its_oldest_frames(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, bytes_max=64 * KIB, keep_from=KEEP_NONE)
    for number in range(1000):
        log.append([b"%d" % number, bytes(number * 31 % 7000)])
        assert log.bytes <= 64 * KIB
    log.append([b"large", bytes(50 * KIB)])
    assert (log.first, log.next) == (1000, 1001)
    with pytest.raises(LogFull):
        log.append([bytes(64 * KIB)])
    assert [number for number, _ in Reader(tmp_path).frames(1000)] == [1000]


def test_reading_a_frame_number_that_the_log_skipped_is_reported_as_forgotten(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path)
    log.skip_to(7)
    reader = Reader(tmp_path)
    log.append([b"seven"])
    log.skip_to(12)
    log.append([b"twelve"])
    assert (reader.first, reader.next) == (7, 13)
    with pytest.raises(FrameForgotten, match="continue at frame 12"):
        read(reader, 7)
    assert read(reader, 12) == [(12, b"twelve")]


def test_reader_follows_when_a_larger_segment_replaces_an_empty_segment(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, segment_bytes=16 * KIB)
    reader = Reader(tmp_path)
    assert (read(reader), reader.next) == ([], 0)
    log.append([bytes(100 * KIB)])
    assert (read(reader), reader.next) == ([(0, bytes(100 * KIB))], 1)


@pytest.mark.parametrize("seed", range(4))
def test_killed_writer_leaves_exactly_the_frames_it_published(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    following = None
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        with child, child.stdout as said:
            assert said.readline() == b"open\n"
            last = -1
            following = following or Reader(tmp_path)
            for line in islice(said, rng.randrange(400)):
                last = int(line)
            child.kill()
            last = max(
                [last, *(int(line) for line in said.read().splitlines(keepends=True) if line.endswith(b"\n"))]
            )
        found = read(Reader(tmp_path))
        assert found == [(number, expected(number)) for number in range(len(found))]
        assert last < len(found) <= max(last, 0) + 2 or last == -1
        assert following.next == len(found)


@pytest.mark.parametrize("seed", range(3))
def test_reader_gets_only_published_frames_from_a_full_log_whose_writer_was_killed(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS_FORGETTING, tmp_path],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert child.stdout is not None
        with child, child.stdout as said:
            assert said.readline() == b"open\n"
            reader, held = Reader(tmp_path), {}
            start, until = reader.first, reader.next + rng.randrange(500, 2000)
            while start < until and (line := said.readline()):
                for number, payload in frames_left(reader, max(start, int(line) - 100)):
                    held[number] = payload
                    start = number + 1
                    if rng.random() < 0.01:
                        held = dict(islice(held.items(), rng.randrange(10)))
            child.kill()
        assert {number: bytes(payload) for number, payload in held.items()} == {
            number: expected(number) for number in held
        }
        log = Reader(tmp_path)
        assert read(log, log.first) == [(number, expected(number)) for number in range(log.first, log.next)]


@pytest.mark.parametrize("seed", range(3))
def test_killed_writer_leaves_all_or_none_of_the_frames_appended_together(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS_TOGETHER, tmp_path],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert child.stdout is not None
        with child, child.stdout as said:
            assert said.readline() == b"open\n"
            for _ in islice(said, rng.randrange(200)):
                pass
            child.kill()
        found = [payload.split(b" ", 1)[0] for _, payload in read(Reader(tmp_path))]
        place = 0
        while place < len(found):
            size = int(found[place].split(b"/")[1])
            assert found[place : place + size] == [b"%d/%d" % (each, size) for each in range(size)]
            place += size


def test_frames_appended_together_are_in_the_same_segment(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, segment_bytes=16 * KIB)
    log.append([b"before"])
    assert log.append_all([]) == 1
    frames = [([bytes([place]) * 7000], 7000) for place in range(10)]
    assert log.append_all(frames) == 1
    assert read(Reader(tmp_path), 1) == [(1 + place, bytes([place]) * 7000) for place in range(10)]
    assert len(list(tmp_path.glob("*.segment"))) == 2


def test_log_without_room_for_all_frames_accepts_none(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, bytes_max=64 * KIB)
    with pytest.raises(LogFull):
        log.append_all([([bytes(8 * KIB)], 8 * KIB)] * 9)
    assert (log.next, read(Reader(tmp_path))) == (0, [])
    assert log.append_all([([b"one"], 3), ([b"two"], 3)]) == 0


def test_a_log_calls_its_function_forgetting_before_any_frame_is_forgotten(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, segment_bytes=16 * KIB, bytes_max=64 * KIB, keep_from=KEEP_NONE)
    firsts: list[int] = []
    log.forgetting = lambda: firsts.append(Reader(tmp_path).first)
    for _ in range(40):
        before = log.first
        log.append([bytes(3000)])
        assert (log.first != before) == (firsts == [before])
        firsts.clear()
    before = log.first
    log.forget(log.next)
    assert (firsts, log.first > before) == ([before], True)


@pytest.fixture
def full() -> Iterator[Path]:
    """Folder of a full log in shared memory; its next frame of 6,000 bytes begins another segment."""
    with TemporaryDirectory(dir=shared_memory()) as folder:
        log = opened(Path(folder))
        for _ in range(20):
            fill_segment(log)
        log.close()
        yield Path(folder)


def opened(folder: Path) -> SegmentWriter:
    return SegmentWriter(folder, segment_bytes=16 * KIB, bytes_max=SEGMENTS_8, keep_from=KEEP_NONE)


def fill_segment(log: SegmentWriter) -> None:
    """Append two frames, which fill one more segment."""
    for _ in range(2):
        log.append([b"%d" % log.next, bytes(6000)])


def files_of(folder: Path) -> dict[int, int]:
    """Return the memory of each segment in bytes, by the inode of its file."""
    found = [path.stat() for path in folder.glob("*.segment")]
    return {one.st_ino: one.st_blocks * 512 for one in found}


def test_full_log_reuses_its_memory_pages(full: Path) -> None:
    before = files_of(full)
    assert len(before) == 8
    for _ in range(5):
        log = opened(full)
        for _ in range(10):
            assert (files_of(full), log.bytes, log.next - log.first) == (before, sum(before.values()), 16)
            fill_segment(log)
        log.close()
    reader = Reader(full)
    numbers = [int(bytes(payload[:-6000])) for _, payload in reader.frames(reader.first)]
    assert numbers == list(range(reader.first, 140))


def test_segment_that_a_reader_has_mapped_is_not_reused_until_released(full: Path) -> None:
    log, before = opened(full), files_of(full)
    array = np.frombuffer(next(Reader(full).frames(log.first))[1], np.uint8)
    given = bytes(array)
    for _ in range(8):
        fill_segment(log)
    after = files_of(full)
    assert len(before.keys() - after.keys()) == 1
    assert bytes(array) == given
    del array
    for _ in range(20):
        fill_segment(log)
    assert files_of(full) == after
    log.close()


@pytest.fixture
def released(tmp_path: Path) -> Iterator[SegmentWriter]:
    """Writer of a new log in shared memory, with one frame."""
    with TemporaryDirectory(dir=shared_memory()) as folder:
        log = SegmentWriter(Path(folder), segment_bytes=16 * KIB, bytes_max=SEGMENTS_64)
        release(log, 0)
        yield log
        log.close()


def release(log: SegmentWriter, segments: int, reader: Reader | None = None) -> None:
    """Append frames that fill more segments, let the reader read these frames, and forget all frames of the log but the last."""
    for _ in range(segments):
        fill_segment(log)
    log.append([b"more"])
    if reader is not None:
        assert sum(1 for _ in reader.frames(log.first)) == log.next - log.first
        wait_for_more(reader, log)
    log.forget(log.next - 1)


def wait_for_more(reader: Reader, log: SegmentWriter) -> None:
    for _ in range(LOOK_TIMES):
        assert list(reader.frames(log.next)) == []


def spares_of(log: SegmentWriter) -> int:
    return len(list(log.folder.glob(f"{SPARE}*")))


def test_log_keeps_as_many_spare_segments_as_it_fills_between_releases(
    released: SegmentWriter,
) -> None:
    log, kept, files = released, [], []
    for _ in range(6):
        release(log, 3)
        kept.append((spares_of(log), log.bytes))
        files.append({path.stat().st_ino for path in log.folder.iterdir()})
    assert kept[1:] == [(3, kept[-1][1])] * 5
    assert files[2:] == [files[2]] * 4


def test_spare_segments_are_deleted_when_they_are_no_longer_needed(
    released: SegmentWriter,
) -> None:
    log, kept = released, []
    release(log, 9)
    for _ in range(6):
        kept.append(spares_of(log))
        release(log, 0)
    assert kept == [8, 8, 8, 8, 1, 0]
    release(log, 8)
    assert spares_of(log) > 5
    log.forget(log.next)
    assert (spares_of(log), log.bytes) == (0, sum(files_of(log.folder).values()))


def test_spare_segments_are_used_up_when_a_log_needs_room_for_frames(released: SegmentWriter) -> None:
    log = released
    release(log, 60)
    assert spares_of(log) > 55
    for _ in range(63):
        fill_segment(log)
    assert (spares_of(log), log.bytes <= SEGMENTS_64) == (0, True)


def test_spare_segments_of_a_former_writer_are_removed(released: SegmentWriter) -> None:
    log = released
    release(log, 5)
    with TemporaryDirectory(dir=shared_memory()) as folder:
        copy = shutil.copytree(log.folder, Path(folder) / "copy")
        again = SegmentWriter(copy, segment_bytes=16 * KIB, bytes_max=SEGMENTS_64)
        assert (spares_of(log) > 3, spares_of(again), again.next) == (True, 0, log.next)
        again.close()


def test_reader_reuses_its_mapped_segments(released: SegmentWriter) -> None:
    """Check that the reader maps nothing new while the log reuses the same pages."""
    log, reader, maps = released, Reader(released.folder, keeps=20), []
    for _ in range(8):
        release(log, 3, reader)
        maps.append(inodes(mapped(log.folder)))
    assert maps[3:] == [maps[3]] * 5
    assert len(maps[3]) > 3
    release(log, 3, reader)
    for number, payload in reader.frames(log.first):
        assert bytes(payload) == (b"more" if len(payload) == 4 else b"%d" % number + bytes(6000))
    reader.let_go()
    assert len(mapped(log.folder)) <= 2


def test_reader_unmaps_deleted_segments(released: SegmentWriter) -> None:
    log, reader = released, Reader(released.folder, keeps=20)
    for _ in range(3):
        release(log, 3, reader)
    log.forget(log.next)
    wait_for_more(reader, log)
    assert [one for one in mapped(log.folder) if one.endswith("(deleted)")] == []


def mapped(folder: Path) -> set[str]:
    """Return the files of the log that this process has mapped, by inode and name."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {" ".join(line.split()[4:]) for line in lines if str(folder) in line}


def inodes(lines: set[str]) -> set[str]:
    return {line.split()[0] for line in lines}


def test_partly_used_segment_is_not_reused_if_its_missing_pages_would_exceed_the_limit(full: Path) -> None:
    log = opened(full / "another")
    for _ in range(40):
        log.append([b"small"])
        log.skip_to(log.next + 1)
    for _ in range(20):
        log.append([bytes(12_000)])
        assert sum(files_of(log.folder).values()) <= log.bytes <= SEGMENTS_8 - ROLLS
    log.close()


def test_segments_of_large_frames_are_not_reused(full: Path) -> None:
    log = opened(full)
    log.append([bytes(40 * KIB)])
    large = max(files_of(full).items(), key=lambda one: one[1])[0]
    for _ in range(20):
        fill_segment(log)
        assert sum(files_of(full).values()) <= log.bytes <= SEGMENTS_8
    assert large not in files_of(full)
    assert len(files_of(full)) == 8
    log.close()


def test_segment_that_a_killed_process_was_about_to_reuse_is_removed(full: Path) -> None:
    first = Reader(full).first
    min(full.glob("*.segment")).rename(full / SPARE)
    log = opened(full)
    assert (log.first, log.bytes) == (first + 2, 7 * 16 * KIB)
    assert not (full / SPARE).exists()
    log.close()


def test_full_log_drops_only_frames_numbered_below_keep_from(tmp_path: Path) -> None:
    log = SegmentWriter(tmp_path, bytes_max=128 * KIB, keep_from=10)
    with pytest.raises(LogFull):
        fill(log)
    kept = log.first
    assert kept <= 10
    log.keep_from = log.next
    fill_until = log.next + 10
    while log.next < fill_until:
        log.append([bytes(3000)])
    assert log.first > 10


WITHOUT_MEMORY = """
import sys
from pathlib import Path
from actors.log.segment_log import LogFull, Reader, SegmentWriter
log = SegmentWriter(Path(sys.argv[1]) / "log")
try:
    while True:
        log.append([bytes([log.next % 251]) * 50_000])
except LogFull as full:
    assert "the machine has no memory left for the log" in str(full), full
next = log.next
found = [bytes(payload) for _, payload in Reader(log.folder).frames(0)]
assert found == [bytes([number % 251]) * 50_000 for number in range(next)], next
log.append([b"small"])
assert log.next == next + 1 > 10
"""
MOUNTED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size=2m none "$1"'


def test_log_stays_intact_when_memory_runs_out(tmp_path: Path) -> None:
    if subprocess.run([*MOUNTED, MOUNT, "sh", tmp_path], check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root or user namespaces")
    subprocess.run(
        [*MOUNTED, f'{MOUNT} && exec "$2" -c "$3" "$1"', "sh", tmp_path, sys.executable, WITHOUT_MEMORY],
        check=True,
        cwd=ROOT,
    )


def test_log_that_could_not_be_created_for_lack_of_memory_can_be_created_later(
    tmp_path: Path, no_room: Callable[[], AbstractContextManager[None]]
) -> None:
    with no_room(), pytest.raises(LogFull, match="the machine has no memory left for the log"):
        SegmentWriter(tmp_path / "log")
    log = SegmentWriter(tmp_path / "log")
    assert log.append([b"x"]) == 0
    log.close()
