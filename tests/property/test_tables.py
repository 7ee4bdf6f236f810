"""Tables on a terminal of any width: numbers and names are not broken, and no line is too wide."""

from __future__ import annotations

import re
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from services.cli.tables.sheet import Sheet

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", fullmatch=True)
NUMBERS = st.one_of(
    st.integers(0, 10**13).map(lambda count: f"{count:,}"),
    st.floats(0, 1e9).map(lambda value: f"{value:,.2f}"),
    st.tuples(st.integers(0, 99_999), st.integers(1, 9999)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
)
WORDS = st.lists(NAMES.filter(lambda name: len(name) < 20), max_size=30).map(" ".join)


@st.composite
def drawn_tables(draw: st.DrawFn) -> tuple[list[str], int, int | None, list[list[str]]]:
    """Draw a table: headings, the number of left-aligned columns, the position of a column with prose (or None), and rows."""
    names, numbers = draw(st.integers(1, 3)), draw(st.integers(0, 9))
    prose = names if draw(st.booleans()) else None
    left = names + (prose is not None)
    heads = [f"head{place}" for place in range(left + numbers)]
    row = st.tuples(*[NAMES] * names, *([WORDS] if prose is not None else []), *[NUMBERS] * numbers).map(list)
    return heads, left, prose, draw(st.lists(row, min_size=1, max_size=6))


def printed(width: int, heads: list[str], left: int, prose: int | None, rows: list[list[str]]) -> list[str]:
    table = Sheet("a title", heads, left, () if prose is None else (prose,))
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console(width=width, file=StringIO(), record=True)
    console.print(table)
    return console.export_text().splitlines()


@given(drawn_tables(), st.integers(40, 200))
def test_a_table_fits_the_terminal_without_breaking_numbers_or_names(
    table: tuple[list[str], int, int | None, list[list[str]]], width: int
) -> None:
    heads, _, prose, rows = table
    lines = printed(width, *table)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    words = set(text.split())
    hidden = set(re.findall(r"head[0-9]+", text.partition("hidden")[2]))
    is_said = re.search(r"([0-9]+) columns? hidden", " ".join(text.split()))
    assert len(hidden) == (int(is_said[1]) if is_said else 0)
    assert heads[0] not in hidden
    for row in rows:
        for place, (head, cell) in enumerate(zip(heads, row, strict=True)):
            if head in hidden:
                continue
            for word in cell.split() if place == prose else [cell]:
                if len(word) <= width:
                    assert word in words, (word, text)
                else:
                    assert word in text.replace("\n", "").replace(" ", "")


@given(drawn_tables())
def test_on_a_wide_terminal_every_row_is_one_line(
    table: tuple[list[str], int, int | None, list[list[str]]],
) -> None:
    heads, _, prose, rows = table
    if prose is not None:
        rows = [[cell[:40] for cell in row] for row in rows]
    lines = printed(1000, heads, table[1], prose, rows)
    assert [line.split() for line in lines[3:]] == [" ".join(row).split() for row in rows]


def test_the_least_important_columns_are_hidden_first_and_listed_below_the_table() -> None:
    table = Sheet("", ("class", "one", "two", "three"), least=("two", "one"))
    table.add_row("a-name-of-thirty-characters-abc", "1,234,567", "2,345,678", "3,456,789")
    console = Console(width=42, file=StringIO(), record=True)
    console.print(table)
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["class", "three"]
    assert " ".join(lines[3:]) == "2 columns hidden: one, two (widen the terminal, or use -o wide)"
