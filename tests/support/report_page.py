"""Parser of HTML reports, for tests of their contents."""

import re
from html.parser import HTMLParser

# Addresses that name the vocabularies of SVG. A browser loads nothing from these addresses.
NAMESPACES = {
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1999/xlink",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://creativecommons.org/ns#",
    "http://purl.org/dc/elements/1.1/",
    "http://purl.org/dc/dcmitype/StillImage",
}


class Page(HTMLParser):
    """Parsed HTML page: its text, its elements, and the addresses in the elements."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[str] = []
        self.ids: list[str] = []
        self.refers_to: list[str] = []
        self.feed(source)
        self.refers_to += re.findall(r"url\(([^)]*)\)", source) + re.findall(r"@import\s+(\S+)", source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "data", "action", "poster", "srcset", "background"):
                self.refers_to.append(value or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
