"""Measures of what a page draws: overlapping texts, texts that are cut off, and the labels of plots' axes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from playwright.sync_api import BrowserContext, Locator, Page

# Pixels by which the boxes of two lines may overlap. A box is higher than the letters in it, so a small overlap is invisible.
TOUCH_PX = 1.5

# Script that returns the boxes of visible texts. Parts of texts that are scrolled out of view or cut off do not count.
BOXES = """(roots) => {
  const boxes = [];
  const seen = (element, box) => {
    let { left, top, right, bottom } = box;
    for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) {
      const style = getComputedStyle(ancestor);
      if (style.clipPath !== "none") return null;
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const frame = ancestor.getBoundingClientRect();
      [left, right] = [Math.max(left, frame.left), Math.min(right, frame.right)];
      [top, bottom] = [Math.max(top, frame.top), Math.min(bottom, frame.bottom)];
    }
    return right - left > 1 && bottom - top > 1 ? [left, top, right, bottom] : null;
  };
  let place = 0;
  for (const root of roots) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      place += 1;
      if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
      if (node.parentElement.closest("option")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) {
        const box = seen(node.parentElement, rect);
        if (box) boxes.push([place, node.data.trim(), ...box]);
      }
    }
  }
  return boxes;
}"""

# Canvases keep no texts, so this script records the texts drawn on each canvas.
RECORD = """
globalThis.drawnTexts = new Map();
const fillText = CanvasRenderingContext2D.prototype.fillText;
const clearRect = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
  const { e, f } = this.getTransform();
  const texts = globalThis.drawnTexts.get(this.canvas) ?? [];
  texts.push([String(text), Math.round(x + e), Math.round(y + f), this.textAlign]);
  globalThis.drawnTexts.set(this.canvas, texts);
  return fillText.call(this, text, x, y, ...more);
};
CanvasRenderingContext2D.prototype.clearRect = function (...area) {
  globalThis.drawnTexts.delete(this.canvas);
  return clearRect.call(this, ...area);
};
"""
DRAWN = "canvas => globalThis.drawnTexts.get(canvas) ?? []"


class Box(NamedTuple):
    """Box of one line of text, in pixels of the window."""

    number: int
    """Number of the text, all lines of which have the same."""
    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide > TOUCH_PX and high > TOUCH_PX


def boxes_of(texts: Locator) -> list[Box]:
    """Return the boxes of all lines of text in the elements."""
    return [Box(*box) for box in texts.evaluate_all(BOXES)]


def overlapping(texts: Locator) -> list[tuple[str, str]]:
    """Return the pairs of texts that overlap."""
    return [
        (first.text, second.text)
        for first, second in combinations(boxes_of(texts), 2)
        if first.number != second.number and first.overlaps(second)
    ]


def rows_of(elements: Locator) -> list[list[float]]:
    """Return the left and right edge of each row of elements, from the top row to the bottom row."""
    edges: dict[int, list[float]] = defaultdict(list)
    for element in elements.all():
        box = element.bounding_box()
        assert box is not None
        edges[round(box["y"])] += [box["x"], box["x"] + box["width"]]
    return [[min(row), max(row)] for _, row in sorted(edges.items())]


def record_drawn_texts(context: BrowserContext) -> None:
    """Make every page of the browser record the texts that its canvases draw."""
    context.add_init_script(RECORD)


def ticks_of(canvas: Locator) -> tuple[list[str], list[str]]:
    """Return the labels of a plot's horizontal axis, and those of its vertical axis."""
    texts: Sequence[tuple[str, int, int, str]] = canvas.evaluate(DRAWN)
    across = [text for text, _, _, align in texts if align == "center"]
    up = [text for text, _, _, align in texts if align != "center"]
    return across, up


def scrolls_sideways(page: Page) -> bool:
    """Return True if the page is wider than its window."""
    wider: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return wider
