// Formats of numbers and times for people.

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

/** Describes answers by the fractions that missed their deadline and were tardy, and by their staleness. */
export function lateness(missed, tardy, staleness) {
  const told = [`${percent(missed, 0)} late`, is(tardy) ? `${percent(tardy, 0)} tardy` : "", `stale ${percent(staleness, 0)}`];
  return told.filter(Boolean).join(", ");
}

/** Returns the time of day of an ISO 8601 time. */
export const clock = (iso) => new Date(iso).toLocaleTimeString([], { hourCycle: "h23" });

const two = (value) => String(value).padStart(2, "0");

/** Returns date and time of an ISO 8601 time, in the browser's time zone. */
export function moment(iso) {
  if (!iso) return "never";
  const at = new Date(iso);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(iso)}`;
}

/** Returns the whole value of a row's column as text; null becomes "null". */
export function cell(value) {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const DIGITS = 6;
const FRACTION_LEAST = 2;
// Numbers beyond these are written with an exponent; without one they would be mostly zeros.
const [SMALLEST, LARGEST] = [1e-9, 1e15];

/** Formats a number with six significant digits, or all integer digits and two decimals. Digits are not grouped: it may be an id. */
export function figure(value) {
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size < SMALLEST || size >= LARGEST) return String(Number(value.toPrecision(DIGITS)));
  const before = Math.floor(Math.log10(size)) + 1;
  const text = value.toFixed(Math.max(FRACTION_LEAST, DIGITS - before));
  return text.replace(/0+$/, "").replace(/\.$/, "");
}

const decimalsOf = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

function counted(values, step) {
  const largest = Math.max(...values.map(Math.abs));
  const [size, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => largest >= 10 * least || (least > 1e3 && largest >= least && step >= least / 10)) ?? [1, ""];
  const digits = decimalsOf(step / size);
  return values.map((value) => (value ? `${(value / size).toFixed(digits)}${letter}` : "0"));
}

/** Labels of an axis, with enough digits that no two labels are equal. */
export const tickTexts = {
  plain: (values, step) => values.map((value) => (value ? value.toFixed(decimalsOf(step)) : "0")),
  percent: (values, step) => values.map((value) => (value ? `${(100 * value).toFixed(decimalsOf(100 * step))}%` : "0%")),
  count: counted,
};
