"""Log lines of long-running commands without a terminal: each change is printed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial

import pytest

from services.cli.commands.up import log_end
from services.cli.tables.state_log import States, changes, feed_problems, feed_states, log_states
from services.ingest.progress import FeedProgress

GIVEN_UP = "t: given up: there is no such stream"


class Over(Exception):
    """Error that the test raises in order to end the log, once all its states have been read."""


def looks(*states: States) -> Iterator[States]:
    yield from states
    raise Over


def logged(capsys: pytest.CaptureFixture[str], *states: States, quiet: bool = False) -> tuple[list[str], str]:
    """Return the lines without their times, and what was printed on stderr."""
    found = looks(*states)
    with pytest.raises(Over):
        log_states(lambda: next(found), quiet, pause_s=0.0)
    printed = capsys.readouterr()
    return [line.partition(" ")[2] for line in printed.out.splitlines()], printed.err


def test_one_line_is_printed_for_each_change_of_state_and_none_while_the_state_stays_equal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    starting, running = States({"class t": "starting"}), States({"class t": "running"})
    failed = States({"class t": "running"}, [GIVEN_UP])
    lines, errors = logged(capsys, starting, starting, running, running, failed, failed, running, States())
    assert lines == [
        "class t: starting",
        "class t: running",
        f"problem: {GIVEN_UP}",
        f"solved: {GIVEN_UP}",
        "class t: removed",
    ]
    assert errors == ""


def test_the_option_quiet_prints_only_problems_and_when_they_are_solved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    running, failed = States({"class t": "running"}), States({"class t": "running"}, [GIVEN_UP])
    lines, errors = logged(capsys, running, failed, failed, running, running, quiet=True)
    assert (lines, errors) == ([], f"{GIVEN_UP}\nall problems are solved\n")


def test_a_problem_text_of_several_lines_is_logged_as_one_line_with_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = looks(States(problems=["a\n  hint: b"]))
    with pytest.raises(Over):
        log_states(lambda: next(found), pause_s=0.0)
    (line,) = capsys.readouterr().out.splitlines()
    moment, _, text = line.partition(" ")
    assert datetime.fromisoformat(moment).tzinfo is not None
    assert text == "problem: a hint: b"


def test_a_restart_of_a_feed_is_logged_as_a_change_and_the_error_of_a_waiting_feed_as_a_problem() -> None:
    running = [FeedProgress("clicks", "running")]
    waiting = [FeedProgress("clicks", "waiting", restarts=1, last_error="no such path")]
    again = [FeedProgress("clicks", "running", restarts=1, last_error="no such path")]
    assert [feed_states(feeds)["feed clicks"] for feeds in (running, waiting, again)] == [
        "running",
        "waiting, restarts: 1",
        "running, restarts: 1",
    ]
    assert [feed_problems(feeds) for feeds in (running, waiting, again)] == [[], ["clicks: no such path"], []]
    assert list(changes(States(feed_states(running)), States(feed_states(again)))) == [
        "feed clicks: running, restarts: 1"
    ]


@pytest.mark.parametrize(
    ("problem", "on_cluster", "line"),
    [
        (SystemExit(143), False, "the system has ended: by SIGTERM, as weir down sends it"),
        (KeyboardInterrupt(), False, "the system has ended: by Ctrl-C"),
        (KeyboardInterrupt(), True, "the service has ended, the system keeps running: by Ctrl-C"),
    ],
)
def test_the_last_log_line_names_the_process_that_ended_and_the_reason(
    capsys: pytest.CaptureFixture[str], problem: BaseException, on_cluster: bool, line: str
) -> None:
    running = ExitStack()
    running.push(partial(log_end, on_cluster))
    assert not running.__exit__(type(problem), problem, None)
    assert capsys.readouterr().out.partition(" ")[2] == f"{line}\n"
