// Rows as a file of comma-separated values.

import { h } from "./dom.js";

const SPECIAL = /[",\r\n]/;

function field(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The rows with a heading, as RFC 4180 has them; null is empty. There is at least one row. */
export function csvOf(rows) {
  const names = Object.keys(rows[0]);
  const lines = [names, ...rows.map((row) => names.map((name) => row[name]))];
  return lines.map((line) => `${line.map(field).join(",")}\r\n`).join("");
}

export function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  h("a", { href: address, download: name }).click();
  // The browser has begun to read it when the click returns.
  setTimeout(() => URL.revokeObjectURL(address), 0);
}
