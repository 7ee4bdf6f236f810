"""Grafana annotations for moves of shares. Each move is annotated only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from services.dashboards.grafana import Grafana, Json
from services.dashboards.push import TAG


@dataclass(frozen=True, slots=True)
class Note:
    """One annotation: a text with a time and tags."""

    at: datetime
    text: str
    tags: tuple[str, ...]

    @property
    def at_ms(self) -> int:
        return round(self.at.timestamp() * 1000)


def notes_of(lending: Json) -> list[Note]:
    """Return a note for each move of shares in the service's response about lending, oldest first."""
    return [
        Note(datetime.fromisoformat(move["at"]), move["words"], (TAG, kind_of(move["branch"])))
        for move in lending["moves"]
    ]


def kind_of(branch: str) -> str:
    """Return the tag for the reason of a share move: the reason without the class named after "by" (`reclaim by gold` gives `reclaim`)."""
    return branch.partition(" by ")[0]


def annotate(grafana: Grafana, notes: Sequence[Note], dry_run: bool = False) -> list[Note]:
    """Write the notes that Grafana does not have yet, and return these notes. With `dry_run`, write nothing."""
    grafana.version()
    if not notes:
        return []
    times = [note.at_ms for note in notes]
    there = {
        (annotation.get("time"), annotation.get("text"))
        for annotation in grafana.annotations(TAG, min(times), max(times))
    }
    new = [note for note in notes if (note.at_ms, note.text) not in there]
    if not dry_run:
        for new_note in new:
            grafana.annotate(new_note.at_ms, new_note.text, new_note.tags)
    return new
