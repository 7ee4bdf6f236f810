"""A recorded run of every kind of core, as it is on disk: it can still be read, and is decided the same today.

When decisions or the form of a log are meant to change, record anew with `WEIR_REGENERATE=1 pytest tests/golden`, and
review the difference: what was recorded before can then no longer be replayed.
"""

import os
from pathlib import Path

from sim.replay import replay
from tests.support.recordings import lending, recorded_run

RECORDED = Path(__file__).parent / "recorded"
REGENERATE = os.environ.get("WEIR_REGENERATE") == "1"
# Capacity is lent and reclaimed in it; a long round makes it a short read.
SETTINGS = lending(2.5).model_copy(update={"round_ms": 40.0})


def test_a_recorded_run_decides_the_same_as_when_it_was_recorded() -> None:
    if REGENERATE:
        for log in RECORDED.glob("*.jsonl"):
            log.unlink()
        recorded_run(RECORDED, SETTINGS)
    report = replay(RECORDED)
    assert report.agrees
    assert [(one.core, one.name) for one in report.cores] == [
        ("turns", "node"),
        ("load", "bronze"),
        ("load", "gold"),
        ("capacity", "node"),
    ]
    assert [(one.sent, one.heard) for one in report.deliveries] == [(2, 2)] * 3


def test_the_same_run_is_recorded_in_the_same_bytes(tmp_path: Path) -> None:
    recorded_run(tmp_path, SETTINGS)
    assert {log.name: log.read_text("utf-8") for log in tmp_path.iterdir()} == {
        log.name: log.read_text("utf-8") for log in RECORDED.iterdir()
    }
