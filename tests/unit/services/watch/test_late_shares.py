"""Late rows: their part of each stream over the last minute of input, and how it is shown."""

from __future__ import annotations

from dataclasses import replace

from actors.host.recent_latency import LATE_S, LateShares
from actors.messages.unit_messages import Figures
from configs.classes.live_class import LiveClass
from loadshed.ledger import TupleLedger
from services.cli.tables.class_tables import class_view_table, quality_table
from services.watch.class_views import ClassView, together
from services.watch.sentences import late
from services.watch.states import ClassState, Condition

STREAM = "CREATE STREAM Clicks (ts timestamp, WATERMARK FOR ts AS ts - INTERVAL '2 seconds')"


def ledgers(delivered: int, late_rows: int) -> dict[str, TupleLedger]:
    return {"clicks": TupleLedger(offered=delivered + late_rows, delivered=delivered, late=late_rows)}


def view(figures: Figures) -> ClassView:
    declared = LiveClass(
        name="acme",
        priority=1,
        delay_target_ms=300,
        streams=(STREAM,),
        queries={"q": "SELECT ts FROM clicks"},
    )
    condition = Condition(ClassState.WITHIN_TARGET, "")
    return ClassView(declared, 1.0, 1.0, 0.0, 0.0, figures, 1, False, condition=condition)


def test_the_late_part_of_the_input_counts_only_the_last_minute() -> None:
    shares = LateShares()
    # Rows of the first report arrived before the measurement began.
    assert shares.end_cycle(0.0, ledgers(900, 100)) == {}
    assert shares.end_cycle(1.0, ledgers(960, 140)) == {"clicks": 0.4}
    assert shares.end_cycle(LATE_S / 2, ledgers(1060, 140)) == {"clicks": 0.2}
    assert shares.end_cycle(1.5 * LATE_S, ledgers(1070, 150)) == {"clicks": 0.5}
    assert shares.end_cycle(9 * LATE_S, ledgers(2070, 150)) == {}


def test_the_late_part_of_a_class_is_the_largest_among_its_units() -> None:
    parts = [Figures(late_now={"a": 0.1, "b": 0.5}), Figures(late_now={"a": 0.2}), Figures()]
    assert together(parts).late_now == {"a": 0.2, "b": 0.5}


def test_late_rows_are_explained_with_the_watermark() -> None:
    assert late(view(Figures(late_now={"clicks": 0.12}))) == (
        "12% of the rows of stream clicks in the last minute of input were late (behind its watermark of 2 s)"
        " and are in no answer; a larger WATERMARK would include them"
    )
    assert late(view(Figures())) == ""


def test_class_and_query_tables_mention_late_rows() -> None:
    answering = Figures(results_per_s=3.0, p95_ms=4.0)
    for part, caption in ((0.12, "late rows: 12% of clicks in acme"), (0.001, "")):
        shown = view(replace(answering, late_now={"clicks": part}))
        assert class_view_table("", [shown]).caption == caption
    answered = {
        "query": "q",
        "answers": 0,
        "mean_ms": 0.0,
        "deadline_ms": 300.0,
        "slowdown": 0.0,
        "utility": {"mean": 1.0, "missed": 0},
        "staleness": 0.0,
        "tardiness": None,
    }
    quality = {"tenant": "acme", "items": [answered], "late_now": {"clicks": 0.12}}
    assert quality_table(quality).caption == "late rows: 12% of clicks in acme"
