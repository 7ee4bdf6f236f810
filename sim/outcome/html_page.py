"""Page layout and tables of HTML reports. Each report is a single document that loads no other files."""

from __future__ import annotations

import html
from collections.abc import Iterable


def document(title: str, style: str, parts: Iterable[str]) -> str:
    """Return an HTML page; `parts` has the HTML texts of its content, in their order."""
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body>{body}</body></html>\n"
    )


def table(heads: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table that can be scrolled sideways."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def row(*cells: str) -> str:
    """Return a table row; `cells` has the HTML text of each cell."""
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
