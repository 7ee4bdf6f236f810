// Form inputs, and conversions between their texts and values of documents.

import { h } from "./dom.js";

export const input = (attributes) => h("input", { autocomplete: "off", spellcheck: "false", ...attributes });

/** Returns the object without undefined values. */
export const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

/** Returns the number in a text, divided by `scale`; other text is returned unchanged, so that the service rejects it. */
export function numberOf(text, scale = 1) {
  const trimmed = text.trim();
  if (!trimmed) return undefined;
  const number = Number(trimmed);
  return Number.isFinite(number) ? Number((number / scale).toPrecision(15)) : trimmed;
}

/** Returns a number times `scale` as text; an empty text for a missing value. */
export const textOf = (value, scale = 1) => (typeof value === "number" ? String(Number((scale * value).toPrecision(12))) : String(value ?? ""));

/** Parses `200:1, 400:0` into the utility points of a document. */
export function pointsOf(text) {
  if (!text.trim()) return undefined;
  const number = (part) => (part === undefined ? null : (numberOf(part) ?? ""));
  return text.split(",").map((point) => point.split(":")).map(([latency, utility]) => ({ latency_ms: number(latency), utility: number(utility) }));
}

/** Formats the utility points of a document as `200:1, 400:0`. */
export const pointsText = (points) => (points ?? []).map((point) => `${point.latency_ms}:${point.utility}`).join(", ");
