// Settings and limits of priority classes and tenants, shown as text or as form controls.

import { h } from "./dom.js";
import { given, input, numberOf, textOf } from "./inputs.js";

const BYTES_MI = 1 << 20;

/** `initial` is the default of a setting, `unset` the text shown if it has no default; `scale` is the factor for display. */
export const SETTINGS = [
  { name: "priority", label: "Priority", hint: "the share is this priority divided by the sum of all priorities" },
  { name: "delay_target_ms", label: "Delay target, ms" },
  { name: "max_drop", label: "Maximum drop, %", scale: 100, initial: 0.95 },
  { name: "max_age_ms", label: "Drop rows older than, ms", unset: "no limit", hint: "applies to waiting rows, even beyond the maximum drop" },
  { name: "min_share", label: "Minimum share, %", scale: 100, initial: 0, hint: "of the lanes, kept even while idle" },
  { name: "lendable", label: "Lendable fraction, %", scale: 100, initial: 1, hint: "of its original share" },
  { name: "borrow_limit", label: "Borrow limit, %", scale: 100, initial: 1, hint: "above its original share" },
];
export const LIMITS = [
  { name: "queries", label: "Maximum queries", initial: 1000 },
  { name: "groups", label: "Maximum keys of groups and joins", initial: 1_000_000 },
  { name: "state_bytes", label: "Maximum state, MiB", scale: 1 / BYTES_MI, initial: 512 * BYTES_MI },
  { name: "result_bytes", label: "Kept answers, MiB", scale: 1 / BYTES_MI },
];
export const VICTIMS = ["random", "oldest", "newest", "fair"];

/** Returns the effective value of a setting as text. */
export const shown = ({ name, scale = 1, initial }, from) => textOf(from?.[name] ?? initial, scale);

/** Creates a control for each setting at `place(name)`; an empty control means the value of its placeholder. */
export function controls(fields, settings, place, values, inherited) {
  const made = settings.map((setting) => {
    const { name, label, scale = 1, hint } = setting;
    const control = input({ name, inputmode: "decimal", value: textOf(values?.[name], scale), placeholder: shown(setting, inherited) });
    return { name, scale, control, element: fields.field(place(name), label, control, hint) };
  });
  return {
    elements: made.map(({ element }) => element),
    /** Updates the placeholders for another priority class. */
    inherit: (from) => made.forEach(({ control }, at) => { control.placeholder = shown(settings[at], from); }),
    values: () => given(Object.fromEntries(made.map(({ name, scale, control }) => [name, numberOf(control.value, scale)]))),
  };
}

/** Creates a select with an empty first option; `unset` describes what applies then. */
export function choice(options, value, unset) {
  const select = h("select", {}, h("option", { value: "" }, unset), options.map((option) => h("option", { value: option, selected: option === value }, option)));
  return { select, value: () => select.value || undefined };
}

/** Creates a select with the options yes, no and unset. */
export function yesOrNo(value, unset) {
  const found = choice(["yes", "no"], value === undefined ? undefined : value ? "yes" : "no", unset);
  return { select: found.select, value: () => (found.value() === undefined ? undefined : found.value() === "yes") };
}
