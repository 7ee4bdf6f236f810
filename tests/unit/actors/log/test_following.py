"""Copies of a unit's logs: a host can restart from any beginning of the logs that has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from actors.gateway.log_replication import ClassCopy, CopyProgress, UnitFrames
from actors.gateway.streams import Streams
from actors.log.commit_format import SnapshotFrame, snapshot_parts
from actors.log.segment_log import LOG_BYTES, LogTaken, Part, Reader
from actors.log.unit_log import SNAPSHOTS, LoggedQuery, UnitLog, described
from actors.runtime.run_dirs import RunDirs

DESCRIPTION = b'{"version": 2, "queries": {"hot": [[["temp", "float64"]], "5eed", 1]}}'


class Home:
    """Copy of a unit's logs; it records the growth and the releases that the copy announced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.grown: list[int] = []
        self.released: list[Mapping[str, int]] = []
        self.copy = ClassCopy(folder, LOG_BYTES, self.grown.append, self.released.append)

    def take(
        self, commits: Mapping[int, bytes], snapshots: Mapping[int, int], released: Mapping[str, int]
    ) -> None:
        """Add commits by number, and snapshots. `snapshots` maps the number of each snapshot to the number of the next commit."""
        saved = [(number, snapshot(following)) for number, following in snapshots.items()]
        self.copy.take(UnitFrames(0.0, list(commits.items()), saved, released, DESCRIPTION), 0.0)

    def kept(self, log: str = "") -> dict[int, bytes]:
        reader = Reader(self.folder / log)
        return {number: bytes(payload) for number, payload in reader.frames(reader.first)}


def snapshot(following: int) -> Part:
    parts, _ = snapshot_parts(SnapshotFrame(following, b"state"))
    return b"".join(bytes(part) for part in parts)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path / "gold")
    yield found
    found.copy.close()


def test_a_copied_snapshot_is_stored_only_after_the_commits_before_it(home: Home) -> None:
    home.take({0: b"a"}, {4: 2}, {"readings": 7})
    assert (home.kept(SNAPSHOTS), home.released) == ({}, [])
    assert home.copy.place == CopyProgress(1, 0, {})
    home.take({1: b"b", 2: b"c"}, {4: 2}, {"readings": 7})
    assert home.kept() == {0: b"a", 1: b"b", 2: b"c"}
    assert home.kept(SNAPSHOTS) == {4: snapshot(2)}
    assert home.released == [{"readings": 7}]
    assert home.copy.place == CopyProgress(3, 5, {"readings": 7})
    assert home.grown == [1, 3]


def test_copied_frames_that_arrive_twice_are_stored_once(home: Home) -> None:
    for _ in range(2):
        home.take({0: b"a", 1: b"b"}, {1: 1}, {})
    assert home.kept() == {0: b"a", 1: b"b"}
    assert home.kept(SNAPSHOTS) == {1: snapshot(1)}
    assert described(home.folder) == {"hot": LoggedQuery((("temp", "float64"),), "5eed", 1)}


def test_a_host_resumes_from_the_copy_of_a_log_after_the_copy_is_closed(tmp_path: Path) -> None:
    home = Home(tmp_path / "gold")
    home.take({7: snapshot(8)}, {2: 8}, {})
    with pytest.raises(LogTaken):
        UnitLog(home.folder, LOG_BYTES)
    home.copy.close()
    log = UnitLog(home.folder, LOG_BYTES)
    last, commits = log.found()
    assert last is not None
    assert (last.following, commits, log.next) == (8, [], 8)
    log.close()


def test_input_is_kept_for_a_remote_reader_until_it_is_released(tmp_path: Path) -> None:
    here = Streams(RunDirs(tmp_path, "s", "n1"), lambda: 0.0)
    for name in ("Readings", "alerts"):
        here.declare(f"CREATE STREAM {name} (sensor INT)")
    here.keep_for("gold", ("readings", "alerts"), lossless=True)
    here.keep_for("gold", ("readings",), lossless=True)
    assert here.released_by("gold") == {"readings": 0}
    log = here.find("readings").log
    log.append([b"one"])
    log.append([b"two"])
    here.release_for("gold", {"readings": 1, "alerts": 9})
    here.release_for("gold", {"readings": 0})
    assert (here.released_by("gold"), log.keep_from) == ({"readings": 1}, 1)
    here.release_for("gold", {"readings": 9})
    assert here.released_by("gold") == {"readings": 2}
    here.close()
