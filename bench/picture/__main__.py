"""Write docs/weir.svg, the picture of README (`python -m bench.picture`): streams, the tenants' classes, and answers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

PATH = Path(__file__).parents[2] / "docs" / "weir.svg"
LEFT, WIDTH, HEIGHT = 80, 806, 352
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, QUIET, LINE, PAPER = "#1c2733", "#5b6875", "#8a96a3", "#ffffff"
LENT = "#0b6bcb"
"""Colour of capacity that is lent."""
DROPPED = "#b3261e"
"""Colour of rows that are dropped."""


class TenantRow(NamedTuple):
    """A tenant's class in the picture; `own` and `moved` are fractions of the bar that stands for its processor time."""

    name: str
    terms: str
    colour: str
    own: float
    moved: float
    remark: str
    dropped: str


TENANTS = (
    TenantRow("acme", "priority 6, p95 ≤ 300 ms", "#c69214", 0.55, 0.45, "lends", ""),
    TenantRow("globex", "priority 3, p95 ≤ 400 ms", "#8796a5", 0.45, 0.30, "borrows", ""),
    TenantRow("initech", "priority 1, p95 ≤ 500 ms", "#b06a3b", 0.15, 0.15, "borrows", "drops 12%"),
)


def text(
    x: float,
    y: float,
    words: str,
    size: int = 13,
    colour: str = INK,
    weight: str = "400",
    anchor: str = "start",
) -> str:
    style = f'font-size="{size}" fill="{colour}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str = PAPER, line: str = LINE) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="6" fill="{fill}" stroke="{line}"/>'


def arrow(path: str, colour: str = LINE, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    head = {LINE: "head", LENT: "lent", DROPPED: "dropped"}[colour]
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes} marker-end="url(#{head})"/>'


def marker(name: str, colour: str) -> str:
    size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    return f'<marker id="{name}" {size} orient="auto"><path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'


def column(x: float, title: str, lines: tuple[str, ...]) -> list[str]:
    """Draw a box with a title and lines of text; the box is as high as the three classes together."""
    return [
        box(x, 96, 150, 212),
        text(x + 75, 122, title, 14, weight="600", anchor="middle"),
        *(
            text(x + 75, 152 + 23 * place, line, 13, QUIET, anchor="middle")
            for place, line in enumerate(lines)
        ),
    ]


def tenant(place: int, row: TenantRow) -> list[str]:
    """Draw a tenant's class: its terms, its bar of processor time, the time that the class lends or borrows, and what it drops."""
    y, left, width = 96 + 74 * place, 300, 350
    bar, wide = y + 38, 220
    drawn = [
        box(left, y, width, 64),
        f'<rect x="{left}" y="{y}" width="6" height="64" rx="3" fill="{row.colour}"/>',
        text(left + 18, y + 24, row.name, 14, weight="600"),
        text(left + width - 14, y + 24, row.terms, 13, QUIET, anchor="end"),
        f'<rect x="{left + 18}" y="{bar}" width="{wide}" height="12" rx="3" fill="#eef1f4"/>',
        f'<rect x="{left + 18}" y="{bar}" width="{wide * row.own:g}" height="12" rx="3" fill="{row.colour}"/>',
    ]
    begin, part = left + 18 + wide * row.own, wide * row.moved
    look = (
        f'fill="{LENT}"' if row.remark == "borrows" else f'fill="none" stroke="{LENT}" stroke-dasharray="3 2"'
    )
    drawn += [
        f'<rect x="{begin:g}" y="{bar}" width="{part:g}" height="12" rx="3" {look}/>',
        text(left + 252, bar + 11, row.remark, 12, LENT),
    ]
    if row.dropped:
        drawn.append(arrow(f"M{left + 60} {y + 64}V{y + 92}", DROPPED))
        drawn.append(text(left + 70, y + 86, f"{row.dropped}: the ledger counts each row", 12, DROPPED))
    drawn += [arrow(f"M246 {y + 32}H{left - 4}"), arrow(f"M{left + width} {y + 32}H{left + width + 46}")]
    return drawn


def picture() -> str:
    """Return the picture as an SVG text that needs no other file."""
    drawn = [
        f'<rect x="{LEFT}" width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        text(480, 30, "Coordinator", 14, weight="600", anchor="middle"),
        text(
            480,
            50,
            "moves processor time between classes, and back at once when its owner needs it",
            13,
            QUIET,
            anchor="middle",
        ),
        box(170, 10, 620, 52, "none"),
        arrow("M390 62V92", LENT, dashed=True),
        arrow("M560 92V66", LENT, dashed=True),
        text(400, 82, "shares", 12, LENT),
        text(570, 82, "load", 12, LENT),
        *column(96, "Streams", ("any Spark source", "Arrow Flight", "REST", "polled objects")),
        *(line for place, row in enumerate(TENANTS) for line in tenant(place, row)),
        *column(
            700,
            "Answers",
            (
                "REST pages",
                "server-sent events",
                "Arrow Flight",
                "Spark",
                "each with the part",
                "of input it saw",
            ),
        ),
    ]
    markers = marker("head", LINE) + marker("lent", LENT) + marker("dropped", DROPPED)
    title = "Streams come in at the left, one class per tenant runs queries in the middle, answers leave at the right."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{LEFT} 0 {WIDTH} {HEIGHT}" font-family="{FONT}" role="img">'
        f"<title>{escape(title)}</title><defs>{markers}</defs>\n" + "\n".join(drawn) + "\n</svg>\n"
    )


if __name__ == "__main__":
    PATH.write_text(picture(), encoding="utf-8")
