"""A recorded run of every kind of core, kept on disk: it must stay readable, and replaying it must give the
same decisions.

To change decisions or the log format on purpose, record again with `WEIR_REGENERATE=1 pytest tests/golden`,
and review the difference. Older recordings can then no longer be replayed.
"""

import os
from pathlib import Path

from sim.replay import replay
from tests.support.recordings import lending, recorded_run

RECORDED = Path(__file__).parent / "recorded"
REGENERATE = os.environ.get("WEIR_REGENERATE") == "1"
# The run lends and reclaims capacity; its long rounds keep the recording short.
SETTINGS = lending(2.5).model_copy(update={"round_ms": 40.0})


def test_a_replay_of_the_recorded_run_gives_the_recorded_decisions() -> None:
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


def test_recording_the_same_run_again_gives_the_same_bytes(tmp_path: Path) -> None:
    recorded_run(tmp_path, SETTINGS)
    assert {log.name: log.read_text("utf-8") for log in tmp_path.iterdir()} == {
        log.name: log.read_text("utf-8") for log in RECORDED.iterdir()
    }
