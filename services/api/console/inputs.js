// Controls of forms, and how their texts become values of documents and back.

import { h } from "./dom.js";

export const input = (attributes) => h("input", { autocomplete: "off", spellcheck: "false", ...attributes });

/** The values that are there. */
export const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

/** The number in a text, divided by a scale; a text without a number is left for the service to refuse. */
export function numberOf(text, scale = 1) {
  const trimmed = text.trim();
  if (!trimmed) return undefined;
  const number = Number(trimmed);
  return Number.isFinite(number) ? Number((number / scale).toPrecision(15)) : trimmed;
}

/** A number times a scale as a text; nothing for what is not there. */
export const textOf = (value, scale = 1) => (typeof value === "number" ? String(Number((scale * value).toPrecision(12))) : String(value ?? ""));

/** `200:1, 400:0` as a document has it. */
export function pointsOf(text) {
  if (!text.trim()) return undefined;
  const number = (part) => (part === undefined ? null : (numberOf(part) ?? ""));
  return text.split(",").map((point) => point.split(":")).map(([latency, utility]) => ({ latency_ms: number(latency), utility: number(utility) }));
}

/** Utility of a document as `200:1, 400:0`. */
export const pointsText = (points) => (points ?? []).map((point) => `${point.latency_ms}:${point.utility}`).join(", ");
