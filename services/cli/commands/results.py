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
from rich.cells import cell_len
from rich.text import Text

from configs.errors import InvalidInput
from configs.numbers import digits
from services.cli.completion import queries
from services.cli.main import EXIT_INTERRUPTED
from services.cli.service_location import service
from services.cli.tables.catalog_views import warn
from services.cli.tables.sheet import GAP, UNLIMITED, cut_to, hidden_note, screen, wrapped

if TYPE_CHECKING:
    from services.remote.results import RemoteResults
    from services.remote.wire import RowsForgotten

Output = Literal["table", "wide", "json", "yaml", "csv"]
Row = Mapping[str, Any]
# Width of a text in a table, where there is no room for more.
WIDTH_MOST = 40
KEPT = "_kept"
RESTARTED = "the cursor is of an earlier life of the query: rows are shown from the oldest one that is kept"
DELETED = "the query was deleted: there will be no more answers"


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
        typer.Option(
            "--output",
            "-o",
            help="Format: a table, a table with every column, JSON (an object per line), YAML or CSV.",
        ),
    ] = "table",
) -> None:
    """Show the answers of a query.

    `_kept` is the fraction of the input behind a row that was neither shed nor late; a table shows it in percent.
    Rows that were discarded before they could be read are reported on stderr.
    """
    if tail is not None and after is not None:
        raise InvalidInput("--after says already where to begin", "--tail", tail, "leave one of them out")
    with service() as weir, ended_by_ctrl_c(), until_nobody_reads():
        rows = weir.results(query, after=after, follow=follow, forgotten=tell, limit=limit, tail=tail)
        write(rows, writer_of(output, follow))


def write(found: RemoteResults, writer: ResultsWriter) -> None:
    """Write each page as it comes."""
    is_noted = False
    while not found.is_over:
        page = found.page()
        if found.is_restarted and not is_noted:
            warn([RESTARTED])
            is_noted = True
        if page:
            writer.write(found.columns, page)
            sys.stdout.flush()
        check_read()
    writer.end()
    if found.is_deleted:
        warn([DELETED])
        raise typer.Exit(1)


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


class ResultsWriter(Protocol):
    """Of rows that come page by page."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None: ...

    def end(self) -> None:
        """Write what stands below the last row, if anything does."""
        return


class Json(ResultsWriter):
    """An object a line."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sys.stdout.writelines(orjson.dumps(row).decode() + "\n" for row in rows)


class Yaml(ResultsWriter):
    """A list, which may end anywhere."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sys.stdout.write(yaml.safe_dump(list(map(dict, rows)), sort_keys=False, allow_unicode=True))


class Csv(ResultsWriter):
    """With a line of names."""

    def __init__(self) -> None:
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._has_head = False

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = names_of(columns, rows)
        if not self._has_head:
            self._writer.writerow(names)
            self._has_head = True
        self._writer.writerows([whole(row.get(name)) for name in names] for row in rows)


class Table(ResultsWriter):
    """Columns as wide as the first rows need, so that no row waits for later ones.

    On a terminal no line is wider than the terminal: long texts are cut, columns at the right are hidden and named, and columns
    grow with later rows. Otherwise a longer value moves the rest of its line.
    """

    def __init__(self, width: int | None = None, is_endless: bool = False) -> None:
        """`width` is that of the terminal. Without an end, hidden columns are named above the rows."""
        self._width, self._is_endless = width, is_endless
        self._natural: dict[str, int] = {}
        self._texts: set[str] = set()
        self._widths: dict[str, int] = {}

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = names_of(columns, rows)
        lines = [{name: printable(shown(name, row.get(name))) for name in names} for row in rows]
        before = list(self._widths)
        if not before or self._width is not None:
            self._texts |= {name for row in rows for name in names if isinstance(row.get(name), str)}
            for name in names:
                widest = max(cell_len(line[name]) for line in ({name: name}, *lines))
                self._natural[name] = max(widest, self._natural.get(name, 0))
            self._widths = self._fitting(names)
        if list(self._widths) != before:
            if self._is_endless:
                self._name_hidden()
            self._print({name: name for name in names})
        for line in lines:
            self._print(line)

    def end(self) -> None:
        if not self._is_endless:
            self._name_hidden()

    def _fitting(self, names: Sequence[str]) -> dict[str, int]:
        """Return the widths of the columns that are shown."""
        width, widths = self._width, {name: self._natural[name] for name in names}
        if width is None:
            return {name: min(WIDTH_MOST, size) for name, size in widths.items()}
        for name in sorted(self._texts & widths.keys(), key=self._natural.__getitem__, reverse=True):
            over = total(widths) - width
            widths[name] = max(min(widths[name], WIDTH_MOST), widths[name] - max(0, over))
        values = [name for name in names if not name.startswith("_")]
        while len(widths) > 1 and total(widths) > width:
            widths.popitem()
        if values and values[0] not in widths:
            # A row number alone says nothing: the first value is shown as far as there is room.
            first = names[0]
            room = width - widths[first] - GAP
            widths = {first: widths[first], values[0]: room} if room > 0 else widths
        return {name: min(size, width) for name, size in widths.items()}

    def _print(self, line: Mapping[str, str]) -> None:
        cells = (self._cell(line.get(name, ""), size) for name, size in self._widths.items())
        sys.stdout.write((" " * GAP).join(cells) + "\n")

    def _cell(self, text: str, width: int) -> str:
        if self._width is not None:
            text = cut_to(Text(text), width).plain
        return " " * (width - cell_len(text)) + text

    def _name_hidden(self) -> None:
        hidden = [name for name in self._natural if name not in self._widths]
        if hidden and self._width is not None:
            lines = wrapped(screen(), Text(hidden_note(hidden)), self._width)
            sys.stdout.writelines(f"{line.plain.rstrip()}\n" for line in lines)


def total(widths: Mapping[str, int]) -> int:
    """Return the width of a line."""
    return sum(widths.values()) + GAP * (len(widths) - 1)


def writer_of(output: Output, is_endless: bool) -> ResultsWriter:
    """Return the writer of a format. Only a terminal limits the width of a table."""
    match output:
        case "json":
            return Json()
        case "yaml":
            return Yaml()
        case "csv":
            return Csv()
        case "wide":
            return Table()
    width = screen().width
    return Table(None if width == UNLIMITED else width, is_endless)


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
    return "".join(character if character.isprintable() else "�" for character in text)
