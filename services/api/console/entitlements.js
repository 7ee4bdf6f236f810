// Fields of what a priority class gives and a tenant asks for: shown as text, or as controls of a form.

import { h } from "./dom.js";
import { given, input, numberOf, textOf } from "./inputs.js";

const BYTES_MI = 1 << 20;

/** `initial` is what applies where a priority class says nothing, or `unset` the text for it; `scale` is what is shown for 1. */
export const SETTINGS = [
  { name: "priority", label: "Priority", hint: "its share is this over the sum of all priorities" },
  { name: "delay_target_ms", label: "Delay target, ms" },
  { name: "max_drop", label: "Highest drop, %", scale: 100, initial: 0.95 },
  { name: "max_age_ms", label: "Drop what is older than, ms", unset: "no limit", hint: "waiting rows, even beyond the highest drop" },
  { name: "min_share", label: "Least share, %", scale: 100, initial: 0, hint: "of the lanes, however idle" },
  { name: "lendable", label: "Lendable part, %", scale: 100, initial: 1, hint: "of its own share" },
  { name: "borrow_limit", label: "Borrow limit, %", scale: 100, initial: 1, hint: "above its own share" },
];
export const LIMITS = [
  { name: "queries", label: "Queries at most", initial: 1000 },
  { name: "groups", label: "Keys of groups and joins", initial: 1_000_000 },
  { name: "state_bytes", label: "State, MiB", scale: 1 / BYTES_MI, initial: 512 * BYTES_MI },
  { name: "result_bytes", label: "Answers kept, MiB", scale: 1 / BYTES_MI },
];
export const VICTIMS = ["random", "oldest", "newest", "fair"];

/** What applies of a setting, as a text. */
export const shown = ({ name, scale = 1, initial }, from) => textOf(from?.[name] ?? initial, scale);

/** A control for each setting at `place(name)`; what is left empty is as the placeholder says. */
export function controls(fields, settings, place, values, inherited) {
  const made = settings.map((setting) => {
    const { name, label, scale = 1, hint } = setting;
    const control = input({ name, inputmode: "decimal", value: textOf(values?.[name], scale), placeholder: shown(setting, inherited) });
    return { name, scale, control, element: fields.field(place(name), label, control, hint) };
  });
  return {
    elements: made.map(({ element }) => element),
    /** Placeholders, after another priority class was chosen. */
    inherit: (from) => made.forEach(({ control }, at) => { control.placeholder = shown(settings[at], from); }),
    values: () => given(Object.fromEntries(made.map(({ name, scale, control }) => [name, numberOf(control.value, scale)]))),
  };
}

/** A choice with an empty one in front, whose text says what applies then. */
export function choice(options, value, unset) {
  const select = h("select", {}, h("option", { value: "" }, unset), options.map((option) => h("option", { value: option, selected: option === value }, option)));
  return { select, value: () => select.value || undefined };
}

/** Yes, no, or unset. */
export function yesOrNo(value, unset) {
  const found = choice(["yes", "no"], value === undefined ? undefined : value ? "yes" : "no", unset);
  return { select: found.select, value: () => (found.value() === undefined ? undefined : found.value() === "yes") };
}
