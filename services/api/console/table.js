// Table that updates its rows in place, so that focus, selection and scroll position stay.

import { h, show } from "./dom.js";

const ROWS_FIRST = 50;

/**
 * Columns are {title, fill(cell, item), make?(cell, item), head?, number?, whole?}. `make` is called once per row,
 * `fill` at every update. With `cards`, rows become cards in a narrow window.
 */
export class Table {
  #columns; #body; #rows = new Map(); #more; #shown = ROWS_FIRST; #last = [];

  constructor(root, columns, { caption, cards = true } = {}) {
    this.#columns = columns;
    const titles = columns.map((one) => h("th", { scope: "col", role: "columnheader", class: one.number && "number" }, one.title));
    this.#body = h("tbody", { role: "rowgroup" });
    this.#more = h("button", { type: "button", class: "more", onclick: () => this.#showMore() }, "Show more");
    const table = h("table", { role: "table", class: cards && "cards" },
      caption && h("caption", {}, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, titles)),
      this.#body);
    this.#more.hidden = true;
    show(root, h("div", { class: "scroll" }, table), this.#more);
  }

  /** Shows the items, given as [key, item] in display order. */
  update(items) {
    this.#last = items;
    const shown = items.slice(0, this.#shown);
    const keys = new Set(shown.map(([key]) => key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
    }
    shown.forEach(([key, item], place) => this.#row(key, item, place));
    this.#more.hidden = items.length <= this.#shown;
    this.#more.textContent = `Show more (${items.length - shown.length} left)`;
  }

  #row(key, item, place) {
    let row = this.#rows.get(key);
    if (!row) {
      row = this.#made(item);
      this.#rows.set(key, row);
    }
    if (this.#body.children[place] !== row.element) this.#body.insertBefore(row.element, this.#body.children[place] ?? null);
    this.#columns.forEach((column, at) => column.fill?.(row.cells[at], item));
  }

  #made(item) {
    const cells = this.#columns.map((column) => {
      const attributes = { class: [column.number && "number", column.whole && "whole"].filter(Boolean).join(" ") || null };
      const cell = column.head
        ? h("th", { scope: "row", role: "rowheader", ...attributes })
        : h("td", { role: "cell", "data-label": column.title, ...attributes });
      column.make?.(cell, item);
      return cell;
    });
    return { element: h("tr", { role: "row" }, cells), cells };
  }

  #showMore() {
    this.#shown += 4 * ROWS_FIRST;
    this.update(this.#last);
  }
}
