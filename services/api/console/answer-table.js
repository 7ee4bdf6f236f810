// Table of a query's last answers: numbers right-aligned, times without their common parts, whole values on hover.

import { h, setText, show } from "./dom.js";
import { cell, figure, percent } from "./format.js";

const KEPT = "_kept";
const HIDDEN = ["_seq", KEPT];
const KEPT_TITLE = "Fraction of the input for this answer that was kept, if some of it was shed. Counts and sums cover only this fraction.";
const MOMENT = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.(\d{6})Z$/;

const isThere = (value) => value !== null && value !== undefined;

/** Returns the names of a row's columns, without the columns that the service adds. */
export const namesOf = (row) => Object.keys(row).filter((name) => !HIDDEN.includes(name));

/** Returns the kind of all non-null values of a column: "number", "moment" (a time) or "text". */
export function kindOf(values) {
  const there = values.filter(isThere);
  if (!there.length) return "text";
  if (there.every((value) => typeof value === "number")) return "number";
  return there.every((value) => typeof value === "string" && MOMENT.test(value)) ? "moment" : "text";
}

/** Returns the format of a column's times: a common day is shown in the heading only, and common trailing zeros are cut. */
function written(values) {
  const parts = values.filter(isThere).map((value) => MOMENT.exec(value));
  const days = new Set(parts.map(([, day]) => day));
  const digits = Math.max(...parts.map(([, , , fraction]) => 3 * Math.ceil(fraction.replace(/0+$/, "").length / 3)));
  const text = (value) => {
    if (!isThere(value)) return "null";
    const [, day, time, fraction] = MOMENT.exec(value);
    return `${days.size > 1 ? `${day} ` : ""}${time}${digits ? `.${fraction.slice(0, digits)}` : ""}`;
  };
  return { text, note: days.size > 1 ? "UTC" : `${[...days][0]}, UTC` };
}

/** Formats the kept fraction: nothing for 1; a smaller fraction is never rounded up to 100%. */
const kept = (fraction) => (fraction < 1 ? percent(Math.min(fraction, 0.999)) : "");

function columnOf(name, rows) {
  const values = rows.map((row) => row[name]);
  const kind = kindOf(values);
  if (kind === "moment") return { name, kind, ...written(values) };
  return { name, kind, text: (value) => (kind === "number" && isThere(value) ? figure(value) : cell(value)) };
}

export class AnswerTable {
  #head = h("tr", {});
  #body = h("tbody", {});
  element = h("div", { class: "rows", tabindex: 0, role: "region", "aria-label": "Answers, newest first" },
    h("table", {}, h("thead", {}, this.#head), this.#body));
  #seen = "";

  /** Shows the rows; there must be at least one. */
  update(rows) {
    const columns = namesOf(rows[0]).map((name) => columnOf(name, rows));
    this.#title(columns);
    show(this.#body, rows.map((row) => h("tr", {},
      columns.map(({ name, kind, text }) => h("td", { class: kind === "number" && "number", title: cell(row[name]) }, text(row[name]))),
      h("td", { class: "number" }, kept(row[KEPT])))));
  }

  /** Replaces the headings only if they change, so that a tooltip under the pointer stays. */
  #title(columns) {
    const now = JSON.stringify(columns.map(({ name, kind, note }) => [name, kind, note]));
    if (now === this.#seen) return;
    this.#seen = now;
    const cells = columns.map(({ name, kind, note }) => {
      const title = h("th", { scope: "col", class: kind === "number" && "number" }, h("span", {}), note && h("small", {}, note));
      setText(title.firstChild, name);
      return title;
    });
    show(this.#head, cells, h("th", { scope: "col", class: "number", title: KEPT_TITLE }, "kept"));
  }
}
