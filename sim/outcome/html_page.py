"""Frame and tables of the pages that reports are: each is one HTML document, which loads nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable


def document(title: str, style: str, parts: Iterable[str]) -> str:
    """Return a page of parts in HTML."""
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
    """Return a table row of cells in HTML."""
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
