"""`weir results`: the answers of a query, as many as there are or on and on."""

from __future__ import annotations

import csv
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import orjson
import typer
import yaml

from configs.numbers import digits
from configs.problems import InvalidInput
from services.cli.catalog_views import warn
from services.cli.completion import queries
from services.cli.here import service
from services.cli.main import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from services.remote.results import Results
    from services.remote.wire import RowsForgotten

Output = Literal["table", "json", "yaml", "csv"]
Row = Mapping[str, Any]
# Of a value in a table; a longer one moves the rest of its line.
WIDTH_MOST = 40
KEPT = "_kept"


def results(
    query: Annotated[
        str,
        typer.Argument(
            metavar="TENANT/QUERY",
            help="Query that gives the answers; with a tenant's own key QUERY is enough.",
            autocompletion=queries,
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new answers and show them as they come.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            help="Start after this row: its `_seq` or cursor; `latest` shows only new rows.",
            show_default="from the oldest that is kept",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of rows to show.", show_default="all")
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            min=1, help="Begin with the last N rows that are kept.", metavar="N", show_default=False
        ),
    ] = None,
    output: Annotated[
        Output,
        typer.Option("--output", "-o", help="Format: a table, JSON (an object per line), YAML or CSV."),
    ] = "table",
) -> None:
    """Show the answers of a query.

    `_kept` is the fraction of the input behind a row that was neither shed nor late; a table shows it in percent.
    Rows that were discarded before they could be read are reported on stderr.
    """
    if tail is not None and after is not None:
        raise InvalidInput("--after says already where to begin", "--tail", tail, "leave one of them out")
    with service() as weir, ended_by_ctrl_c(), until_nobody_reads():
        found = weir.results(query, after=after, follow=follow, forgotten=tell, limit=limit, tail=tail)
        write(found, WRITERS[output]())


def write(found: Results, writer: Writer) -> None:
    """Each page as it comes."""
    while not found.is_over:
        page = found.page()
        if page:
            writer.write(found.columns, page)
            sys.stdout.flush()
        check_read()


def tell(lost: RowsForgotten) -> None:
    warn([lost.title])


# -- who reads -------------------------------------------------------------------------------------------------


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """The process ends where it is: it has changed nothing, and a call that is interrupted as it locks the pool of connections would
    leave it locked, so that closing it would never end."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # it is ignored, or somebody else's
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def until_nobody_reads() -> Iterator[None]:
    """Whoever closes the pipe has seen enough: that is no failure."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still in Python's buffer goes nowhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


def check_read() -> None:
    """BrokenPipeError if nobody reads any more, also while there is nothing to write."""
    try:
        out = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    poll = select.poll()
    poll.register(out, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


# -- as it is shown --------------------------------------------------------------------------------------------


class Writer(Protocol):
    """Of rows that come page by page."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None: ...


class Json:
    """An object a line."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sys.stdout.writelines(orjson.dumps(one).decode() + "\n" for one in rows)


class Yaml:
    """A list, which may end anywhere."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sys.stdout.write(yaml.safe_dump(list(map(dict, rows)), sort_keys=False, allow_unicode=True))


class Csv:
    """With a line of names."""

    def __init__(self) -> None:
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._has_head = False

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = names_of(columns, rows)
        if not self._has_head:
            self._writer.writerow(names)
            self._has_head = True
        self._writer.writerows([whole(one.get(name)) for name in names] for one in rows)


class Table:
    """In columns as wide as the first rows need; so none waits for those that come later."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = names_of(columns, rows)
        lines = [[printable(shown(name, one.get(name))) for name in names] for one in rows]
        if not self._widths:
            lines.insert(0, names)
            self._widths = [min(WIDTH_MOST, max(map(len, column))) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (text.rjust(width) for text, width in zip(line, self._widths, strict=True))
            sys.stdout.write("  ".join(cells) + "\n")


WRITERS: Mapping[Output, type[Writer]] = {"table": Table, "json": Json, "yaml": Yaml, "csv": Csv}


def names_of(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The number of the row comes first, then what was kept."""
    return list(dict.fromkeys((*rows[0], *columns)))


def shown(name: str, value: object) -> str:
    if name == KEPT and isinstance(value, float):
        return percent(value)
    return text_of(value, "NULL")


def percent(kept: float) -> str:
    """Less than all of it is never told as all of it."""
    return "100%" if kept >= 1 else f"{100 * min(kept, 0.999):.1f}%"


def whole(value: object) -> str:
    """For programs: with all digits."""
    return repr(value) if isinstance(value, float) else text_of(value, "")


def text_of(value: object, absent: str) -> str:
    match value:
        case None:
            return absent
        case bool():
            return str(value).lower()
        case float():
            return digits(value, 10)
    return str(value)


def printable(text: str) -> str:
    """In one line, whatever it holds: no answer moves the cursor of a terminal."""
    return "".join(one if one.isprintable() else "�" for one in text)
