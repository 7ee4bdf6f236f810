"""`weir results`: show the answers of a query that are kept, and with `--follow` each new answer."""

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

from configs.numbers import digits
from services.cli.completion import queries
from services.cli.main import EXIT_INTERRUPTED
from services.cli.service_location import service
from services.cli.shared_options import QUERY_HELP
from services.cli.tables.catalog_views import warn
from services.cli.tables.sheet import GAP, UNLIMITED, cut_to, hidden_note, printable, screen, wrapped
from services.cli.usage import excluded

if TYPE_CHECKING:
    from services.remote.results import RemoteResults
    from services.remote.wire import RowsForgotten

Output = Literal["table", "wide", "json", "yaml", "csv"]
Row = Mapping[str, Any]
# Number of characters to which a long text in a table may be shortened.
WIDTH_MOST = 40
KEPT = "_kept"
RESTARTED = (
    "the cursor is from before a restart of the query: rows are shown from the oldest row that is kept"
)
DELETED = "the query was deleted: there will be no more answers"


def results(
    query: Annotated[
        str,
        typer.Argument(metavar="TENANT/QUERY", help=QUERY_HELP, autocompletion=queries),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new answers and show them as they arrive.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            help="Row to start after, given by its `_seq` or its cursor; `latest` shows only new rows.",
            show_default="before the oldest kept row",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of rows to show.", show_default="all")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, help="Start with the last N rows that are kept.", metavar="N")
    ] = None,
    output: Annotated[
        Output,
        typer.Option(
            "--output",
            "-o",
            help="Output format: table, wide (a table with all columns), json (one object per line), yaml or csv.",
        ),
    ] = "table",
) -> None:
    """Show the answers of a query.

    The column `_kept` is the fraction of a row's input that was neither shed nor late; tables show this fraction in percent.

    Rows that were discarded before they could be read are reported on stderr.
    """
    if tail is not None and after is not None:
        raise excluded("--tail", tail, "--after")
    with service() as weir, ended_by_ctrl_c(), until_nobody_reads():
        rows = weir.results(query, after=after, follow=follow, forgotten=tell, limit=limit, tail=tail)
        write(rows, writer_of(output, follow))


def write(found: RemoteResults, writer: ResultsWriter) -> None:
    """Write each page of rows as soon as the page arrives."""
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


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """End the process at once on Ctrl-C.

    An exception inside a call could leave the connection pool locked, and closing the pool would then hang.
    """
    before = signal.getsignal(signal.SIGINT)
    # If the process ignores SIGINT or has its own handler for SIGINT, nothing is changed.
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def until_nobody_reads() -> Iterator[None]:
    """End the command with exit code 0 if the program that reads its output closes the pipe."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python writes buffered output when the process ends. Output is sent to /dev/null, so that this last write does not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


def check_read() -> None:
    """Raise BrokenPipeError if the program that reads the output has closed the pipe.

    A write would also show that the pipe is closed, but without new rows nothing is written.
    """
    try:
        out = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    poll = select.poll()
    poll.register(out, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


class ResultsWriter(Protocol):
    """Base class of the output formats: writes rows page by page as they arrive."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None: ...

    def end(self) -> None:
        """Write the lines that belong below the last row, if the format has such lines."""
        return


class Json(ResultsWriter):
    """Writer of JSON, one object per line."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sys.stdout.writelines(orjson.dumps(row).decode() + "\n" for row in rows)


class Yaml(ResultsWriter):
    """Writer of a YAML list. After each row, the text written until then is valid YAML."""

    def write(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sys.stdout.write(yaml.safe_dump(list(map(dict, rows)), sort_keys=False, allow_unicode=True))


class Csv(ResultsWriter):
    """Writer of CSV with a header line."""

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
    """Writer of a table with columns as wide as the first rows need, so that no row waits for later rows.

    On a terminal, no line is wider than the terminal: long texts are shortened, columns at the right are hidden and named, and columns
    grow when later rows need more room. Elsewhere, a longer value shifts the rest of its line.
    """

    def __init__(self, width: int | None = None, is_endless: bool = False) -> None:
        """`width` is the width of the terminal, if any. An endless table names hidden columns above its rows."""
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
            # If only the row number fits, the first value is shortened, so that the row number and this value fit.
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
    """Return the width of a table line with columns of these widths."""
    return sum(widths.values()) + GAP * (len(widths) - 1)


def writer_of(output: Output, is_endless: bool) -> ResultsWriter:
    """Return the writer of a format. The width of a table is limited only on a terminal."""
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
    """Return the names of the columns: first `_seq` and `_kept`, which every result has, then the columns of the query."""
    return list(dict.fromkeys((*rows[0], *columns)))


def shown(name: str, value: object) -> str:
    if name == KEPT and isinstance(value, float):
        return percent(value)
    return text_of(value, "NULL")


def percent(kept: float) -> str:
    """Return the fraction `kept` in percent. A fraction below 1 is never rounded to 100%."""
    return "100%" if kept >= 1 else f"{100 * min(kept, 0.999):.1f}%"


def whole(value: object) -> str:
    """Return a value as text for programs: numbers keep all their digits."""
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
