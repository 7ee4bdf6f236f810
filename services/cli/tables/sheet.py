"""Tables that never break a number or a name, however narrow the terminal is.

Numbered properties:
1. No line is wider than the terminal.
2. A cell is in one line, unless its column is prose, which is wrapped between words. Long texts may be shortened to one line.
3. If a table is too wide, columns are hidden, the least important ones first, and a line below the table names them. The first
   column is never hidden.
4. If more than two thirds of the columns would be hidden, each row is shown as a record: a line for each column.
5. A word that is wider than the whole terminal is broken, because no line has room for it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.style import Style
from rich.text import Text

from configs.numbers import exact

GAP = 2
# Maximum width of prose on a terminal of any width, because longer lines are hard to read.
PROSE_MOST = 100
PROSE_LEAST = 24
CUT_LEAST = 40
# Width of an output without a limit, such as a file.
UNLIMITED = 100_000
HEAD, TITLE, RULE, NOTE = (Style.parse(style) for style in ("bold", "italic", "dim", "dim italic"))

Output = Literal["table", "wide", "json", "yaml"]
Format = Literal["table", "wide", "json"]
FormatOption = Annotated[
    Format,
    typer.Option("--output", "-o", help="Output format: table, wide (a table with all columns) or json."),
]


def screen(output: str = "table", stderr: bool = False) -> Console:
    """Return the console to print on. Only a terminal limits the width of lines, unless `wide` is wanted."""
    console = Console(highlight=False, stderr=stderr)
    if output == "wide" or not (console.is_terminal or os.environ.get("COLUMNS")):
        console.width = UNLIMITED
    return console


class Lines(ABC):
    """Base class of layouts that rich prints: a subclass returns its lines for a given width."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines(console, options.max_width):
            line.rstrip()
            yield from line.render(console, end="\n")

    @abstractmethod
    def lines(self, console: Console, width: int) -> Iterator[Text]: ...


@dataclass
class Sheet(Lines):
    """Table without lines around its cells. Cells are texts in rich's markup."""

    title: str
    heads: Sequence[str]
    left: int = 1
    """Number of text columns at the left. All other columns except `texts` hold numbers, aligned to the right."""
    prose: Sequence[int] = ()
    """Indices of columns with cells that may take several lines."""
    cut: Sequence[int] = ()
    """Indices of columns with texts that are shortened to fit into one line, by leaving out the last words."""
    least: Sequence[str] = ()
    """Heads of columns that are hidden first, in this order; then columns are hidden from right to left."""
    caption: str = ""
    has_heads: bool = True
    texts: Sequence[int] = ()
    """Indices of text columns to the right of the first `left` columns."""
    whole: bool = False
    """Show each row as a record if a column would have to be hidden."""
    rows: list[Sequence[Text]] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)
    """Row numbers after which a line is left empty, because a section ends."""

    def add_row(self, *cells: str, end_section: bool = False) -> None:
        cells += ("",) * (len(self.heads) - len(cells))
        self.rows.append([clean(Text.from_markup(cell)) for cell in cells])
        if end_section:
            self.add_section()

    def add_section(self) -> None:
        self.ends.add(len(self.rows))

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        if self.title:
            yield from wrapped(console, Text.from_markup(self.title, style=TITLE), width)
        shown = self.shown(width)
        hidden = [head for place, head in enumerate(self.heads) if shown is not None and place not in shown]
        yield from self.records(console, width) if shown is None else self.table(console, width, shown)
        if hidden and self.rows:
            yield from wrapped(console, Text(hidden_note(hidden), NOTE), width)
        if self.caption:
            yield from wrapped(console, Text.from_markup(self.caption), width)

    def shown(self, width: int) -> list[int] | None:
        """Return the indices of the columns that fit. Return None if too few columns fit, so that each row must be shown as a record."""
        places = list(range(len(self.heads)))
        named = [self.heads.index(head) for head in self.least]
        least = iter([*named, *(place for place in reversed(places) if place not in named)])
        while self.needed(places, self.gap(width)) > width:
            place = next(least, 0)
            if self.whole or place == 0 or 3 * (len(places) - 1) < len(self.heads):
                return None
            places.remove(place)
        return places

    def needed(self, places: Sequence[int], gap: int) -> int:
        """Return the smallest width in which these columns fit."""
        return sum(map(self.narrowest, places)) + gap * (len(places) - 1)

    def gap(self, width: int) -> int:
        """Return the number of spaces between columns: GAP, or one space less if all columns fit only then."""
        places = range(len(self.heads))
        return GAP - 1 if self.needed(places, GAP - 1) <= width < self.needed(places, GAP) else GAP

    def widest(self, place: int) -> int:
        head = Text(self.heads[place]).cell_len if self.has_heads else 0
        content_width = max((line.cell_len for row in self.rows for line in row[place].split()), default=0)
        return max(
            head,
            min(content_width, PROSE_MOST) if place in self.prose else content_width,
            self.longest_word(place),
        )

    def narrowest(self, place: int) -> int:
        """Return the smallest width of a column in which no word, number or name is broken."""
        if place not in self.prose and place not in self.cut:
            return self.widest(place)
        least = PROSE_LEAST if place in self.prose else CUT_LEAST
        return max(min(self.widest(place), least), self.longest_word(place))

    def longest_word(self, place: int) -> int:
        """Return the width of the longest word in a column of prose; 0 for other columns."""
        if place not in self.prose:
            return 0
        return max((longest_word(row[place]) for row in self.rows), default=0)

    def table(self, console: Console, width: int, shown: Sequence[int]) -> Iterator[Text]:
        gap = self.gap(width)
        widths = self.widths(width - gap * (len(shown) - 1), shown)
        if self.has_heads:
            heads = [Text(self.heads[place], HEAD) for place in shown]
            yield self.joined(heads, widths, gap)
            yield Text("─" * (sum(widths.values()) + gap * (len(shown) - 1)), RULE)
        for number, row in enumerate(self.rows, start=1):
            cells = [self.cell(console, row[place], place, widths[place]) for place in shown]
            for line in range(max(map(len, cells), default=0)):
                texts = [cell[line] if line < len(cell) else Text() for cell in cells]
                yield self.joined(texts, widths, gap)
            if number in self.ends and number < len(self.rows):
                yield Text()

    def cell(self, console: Console, text: Text, place: int, width: int) -> Sequence[Text]:
        """Return the lines of a cell."""
        if place in self.prose:
            return wrapped(console, text, width)
        return [cut_to(line, width) if place in self.cut else line for line in text.split()]

    def widths(self, width: int, shown: Sequence[int]) -> dict[int, int]:
        """Return the width of each column. Columns of prose, and of texts that may be shortened, share the width that the other columns leave."""
        widths = {place: self.narrowest(place) for place in shown}
        room = width - sum(widths.values())
        missing = {place: self.widest(place) - widths[place] for place in shown}
        for place, more in missing.items():
            part = min(more, room * more // max(1, sum(missing.values())))
            widths[place] += part
        return widths

    def joined(self, cells: Sequence[Text], widths: Mapping[int, int], gap: int) -> Text:
        line = Text()
        for cell, (place, size) in zip(cells, widths.items(), strict=True):
            if line.plain:
                line.append(" " * gap)
            space = " " * (size - cell.cell_len)
            is_text = place < self.left or place in self.texts
            line.append_text(Text.assemble(cell, space) if is_text else Text.assemble(space, cell))
        return line

    def records(self, console: Console, width: int) -> Iterator[Text]:
        label = max((Text(head).cell_len for head in self.heads), default=0) if self.has_heads else 0
        for number, row in enumerate(self.rows):
            if number:
                yield Text()
            for head, cell in zip(self.heads, row, strict=True):
                if cell.plain:
                    yield from labelled(console, Text(head, HEAD), cell, label + GAP, width)


Row = TypeVar("Row")


def table_of(
    title: str, columns: Mapping[str, Callable[[Row], str]], rows: Iterable[Row], left: int = 1
) -> Sheet:
    """Return a table with a line per row; a column is a head and a function from a row to its cell."""
    table = Sheet(title, tuple(columns), left)
    for row in rows:
        table.add_row(*(cell(row) for cell in columns.values()))
    return table


def findings_table(findings: Iterable[tuple[str, str, str, bool, str]]) -> Sheet:
    """Return a table of a paper's findings: the finding, the claimed figure, the figure of this run, whether they agree, and the source."""
    table = Sheet("the paper's findings", ("finding", "claimed", "here", "holds", "source"), prose=(0,))
    for finding, claimed, here, holds, source in findings:
        mark = "[green]yes[/]" if holds else "[red]no[/]"
        table.add_row(escape(finding), claimed, here, mark, escape(source))
    return table


def hidden_note(heads: Sequence[str]) -> str:
    """Return the line that names hidden columns."""
    count = f"{len(heads)} column{'s' if len(heads) > 1 else ''}"
    return f"{count} hidden: {', '.join(heads)} (widen the terminal, or use -o wide)"


def clean(text: Text) -> Text:
    """Return the text with each unprintable character replaced, except line breaks."""
    return Text("\n".join(map(printable, text.plain.split("\n"))), spans=text.spans)


def printable(text: str) -> str:
    """Return the text with each unprintable character replaced, since control characters could move the cursor."""
    return "".join(character if character.isprintable() else "�" for character in text)


def cut_to(text: Text, width: int) -> Text:
    """Return the beginning of a text that fits into a width. The cut is between words, unless half of the beginning would be lost."""
    if text.cell_len <= width:
        return text
    text = text.copy()
    text.truncate(width - 1)
    words = text.plain.rpartition(" ")[0]
    if 2 * len(words) > len(text.plain):
        text.right_crop(len(text.plain) - len(words))
    return text.append("…")


def wrapped(console: Console, text: Text, width: int) -> list[Text]:
    """Return the lines of a text that is wrapped between words; at least one."""
    return list(text.wrap(console, max(1, width), overflow="fold")) or [Text()]


def longest_word(text: Text) -> int:
    return max((Text(word).cell_len for word in text.plain.split()), default=0)


def labelled(console: Console, name: Text, text: Text, start: int, width: int) -> Iterator[Text]:
    """Yield the lines of a text that starts in column `start`, right of its label. A text with a very long word is put below its label."""
    if longest_word(text) > width - start:
        yield from wrapped(console, name, width)
        yield from wrapped(console, text, width)
        return
    for place, line in enumerate(wrapped(console, text, min(width - start, PROSE_MOST))):
        head = Text() if place else name
        yield Text.assemble(head, " " * (start - head.cell_len), line)


@dataclass
class Description(Lines):
    """Layout of one declaration, or one response of the service, with a line per field. Fields inside a field are indented below it."""

    title: str
    fields: Mapping[str, Any]

    def lines(self, console: Console, width: int) -> Iterator[Text]:
        if self.title:
            yield from wrapped(console, Text(self.title, TITLE), width)
        yield from fields_of(console, self.fields, width)


def fields_of(console: Console, fields: Mapping[str, Any], width: int) -> Iterator[Text]:
    """Yield the lines of fields; fields inside a field are indented."""
    flat = [name for name, value in fields.items() if not is_nested(value)]
    label = max((Text(name).cell_len for name in flat), default=0) + 1
    for name, value in fields.items():
        name_text = Text(f"{name}:", HEAD)
        if is_nested(value):
            yield name_text
            yield from (Text.assemble("  ", line) for line in nested(console, value, width - 2))
        else:
            yield from labelled(console, name_text, clean(Text(plain(value))), label + GAP, width)


def nested(console: Console, value: Any, width: int) -> Iterator[Text]:
    if isinstance(value, Mapping):
        yield from fields_of(console, value, width)
    elif all(isinstance(item, Mapping) and not any(map(is_nested, item.values())) for item in value):
        heads = list(dict.fromkeys(head for item in value for head in item))
        sheet = Sheet("", heads, left=len(heads))
        for item in value:
            sheet.rows.append([clean(Text(plain(item.get(head)))) for head in heads])
        yield from sheet.lines(console, width)
    else:
        for item in value:
            lines = list(nested(console, item, width - 2)) if is_nested(item) else [clean(Text(plain(item)))]
            for place, line in enumerate(lines):
                yield Text.assemble("  " if place else "- ", line)


def is_nested(value: Any) -> bool:
    """Return True if a value needs its own lines: a mapping, or a list of mappings or lists."""
    if isinstance(value, Mapping):
        return bool(value)
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and any(isinstance(item, Mapping | list | tuple) for item in value)


def plain(value: Any) -> str:
    """Return a value as a text in one line, for people."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case Mapping():
            return ", ".join(f"{name}: {plain(part)}" for name, part in value.items()) or "–"
        case [Mapping(), *_]:
            return "; ".join(map(plain, value))
        case Sequence():
            return ", ".join(map(plain, value)) or "–"
    return exact(value) if isinstance(value, float) else str(value)
