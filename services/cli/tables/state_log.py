"""Log lines of `weir up`, `ingest` and `mirror` without a terminal: one line per change of a state or problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn

import typer

from services.ingest.progress import FeedProgress
from services.mirror.poll_loop import MirrorProgress

LOOK_S = 1.0


@dataclass(frozen=True)
class States:
    """State of each class, feed or mirror by its name, and the texts of all current problems."""

    parts: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()


def changes(before: States, after: States) -> Iterator[str]:
    """Yield a line for each class, feed or mirror that was added, changed or removed, then for each new or solved problem."""
    for name, state in after.parts.items():
        if before.parts.get(name) != state:
            yield f"{name}: {state}"
    for name in before.parts:
        if name not in after.parts:
            yield f"{name}: removed"
    yield from (f"problem: {problem}" for problem in after.problems if problem not in before.problems)
    yield from (f"solved: {problem}" for problem in before.problems if problem not in after.problems)


def log_states(look: Callable[[], States], quiet: bool = False, pause_s: float = LOOK_S) -> NoReturn:
    """Print changes until an exception ends the command; with `quiet`, print only problems, on stderr."""
    before = States()
    while True:
        after = look()
        if quiet:
            tell_problems(before.problems, after.problems)
        else:
            for line in changes(before, after):
                log_line(line)
        before = after
        time.sleep(pause_s)


def log_line(text: str) -> None:
    """Print a line with the time."""
    typer.echo(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(text.split())}")


def tell_problems(before: Sequence[str], after: Sequence[str]) -> None:
    """Print new problems on stderr, and a line when the last problem is solved."""
    for problem in after:
        if problem not in before:
            typer.echo(problem, err=True)
    if before and not after:
        typer.echo("all problems are solved", err=True)


def feed_states(feeds: Sequence[FeedProgress]) -> dict[str, str]:
    """Return the states of feeds; a restart is a change of state."""
    return {
        f"feed {feed.feed}": feed.state + (f", restarts: {feed.restarts}" if feed.restarts else "")
        for feed in feeds
    }


def feed_problems(feeds: Sequence[FeedProgress]) -> list[str]:
    """Return the last error of each feed that does not run."""
    return [
        f"{feed.feed}: {feed.last_error}" for feed in feeds if feed.state != "running" and feed.last_error
    ]


def mirror_states(mirrors: Sequence[MirrorProgress]) -> dict[str, str]:
    """Return the state `polled` for each mirror that runs."""
    return {f"mirror {mirror.mirror}": "polled" for mirror in mirrors}


def mirror_problems(mirrors: Sequence[MirrorProgress]) -> list[str]:
    """Return the problems of objects that mirrors cannot poll."""
    return [f"{mirror.mirror}: {problem}" for mirror in mirrors for problem in mirror.problems]
