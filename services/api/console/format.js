// Numbers as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const NOTHING = "–";

const is = (value) => typeof value === "number" && Number.isFinite(value);

export const whole = (value) => (is(value) ? WHOLE.format(value) : NOTHING);

export const short = (value) => (!is(value) ? NOTHING : Math.abs(value) < 10_000 ? WHOLE.format(value) : SHORT.format(value));

export const ms = (value) => (!is(value) ? NOTHING : `${value >= 10 ? WHOLE.format(value) : value.toFixed(1)} ms`);

export const percent = (value, digits = 1) => (is(value) ? `${(100 * value).toFixed(digits)}%` : NOTHING);

export const times = (value) => (!is(value) ? NOTHING : `${value < 10 ? Number(value.toPrecision(3)) : short(value)}×`);

export const number = (value, digits = 2) => (is(value) ? value.toFixed(digits) : NOTHING);

export const perSecond = (value) => (is(value) ? `${short(value)}/s` : NOTHING);

export function seconds(value) {
  if (!is(value)) return NOTHING;
  if (value > 0 && value < 0.1) return `${Math.max(1, Math.round(1000 * value))} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}

/** What else there is to say of answers than how long they took: parts that were late, and of the time. */
export function lateness(missed, tardy, staleness) {
  const told = [`${percent(missed, 0)} late`, is(tardy) ? `${percent(tardy, 0)} tardy` : "", `stale ${percent(staleness, 0)}`];
  return told.filter(Boolean).join(", ");
}

/** The time of day of a moment in ISO 8601. */
export const clock = (iso) => new Date(iso).toLocaleTimeString([], { hourCycle: "h23" });

export const moment = (iso) => (iso ? new Date(iso).toLocaleString() : "never");

/** A value of a row: what is not there is told, not left out. */
export function cell(value) {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
