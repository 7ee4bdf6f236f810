// Form part for the columns of a new stream: name and type of each, and the choice of the event time column.

import { h } from "./dom.js";

const KINDS = ["timestamp", "int64", "int32", "float64", "float32", "string", "boolean", "decimal(18,2)"];
const FIRST = [["ts", "timestamp"], ["sensor", "int32"], ["temp", "float64"]];

export class Columns {
  element = h("div", { class: "columns" });
  #rows = [];

  constructor() {
    for (const [name, kind] of FIRST) this.add(name, kind);
    this.#rows[0].time.checked = true;
  }

  add(name = "", kind = "float64") {
    const at = () => this.#rows.indexOf(row) + 1;
    const row = {
      name: h("input", { value: name, "aria-label": "Name of the column", placeholder: "name", spellcheck: "false", autocomplete: "off" }),
      kind: h("select", { "aria-label": "Type of the column" }, KINDS.map((one) => h("option", { value: one, selected: one === kind }, one))),
      time: h("input", { type: "radio", name: "time-column" }),
    };
    const gone = h("button", { type: "button", class: "quiet", title: "Remove the column", "aria-label": "Remove the column", onclick: () => this.#remove(row, at()) }, "✕");
    row.element = h("div", { class: "column" }, row.name, row.kind, h("label", {}, row.time, "event time"), gone);
    this.#rows.push(row);
    this.element.append(row.element);
    return row.name;
  }

  #remove(row, at) {
    this.#rows = this.#rows.filter((one) => one !== row);
    row.element.remove();
    (this.#rows[at - 1] ?? this.#rows.at(-1))?.name.focus();
  }

  get first() {
    return this.#rows[0]?.name ?? this.element;
  }

  /** Returns the fields `columns` and `time` of a Stream document. */
  get document() {
    const columns = Object.fromEntries(this.#rows.map((row) => [row.name.value.trim(), row.kind.value]));
    const time = this.#rows.find((row) => row.time.checked)?.name.value.trim();
    return { columns, ...(time ? { time } : {}) };
  }
}
