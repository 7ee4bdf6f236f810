// Export of rows as a CSV file.

import { h } from "./dom.js";

const SPECIAL = /[",\r\n]/;

function field(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns at least one row as CSV with a header line (RFC 4180); null becomes an empty field. */
export function csvOf(rows) {
  const names = Object.keys(rows[0]);
  const lines = [names, ...rows.map((row) => names.map((name) => row[name]))];
  return lines.map((line) => `${line.map(field).join(",")}\r\n`).join("");
}

export function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  h("a", { href: address, download: name }).click();
  // The browser has started the download when the click returns, so the URL can be released.
  setTimeout(() => URL.revokeObjectURL(address), 0);
}
