// Preview of a change: the declarations that it creates or alters, and a prediction of all delay targets.

import { badge, h, setText, show } from "./dom.js";
import { ms, percent } from "./format.js";
import { Table } from "./table.js";

const ACTIONS = { created: "is created", changed: "is changed", unchanged: "is unchanged", deleted: "is deleted" };
const NOTHING = "–";
const NO_PLAN = "No prediction: no system runs here, or the change affects no class.";
const nameOf = ({ kind, tenant, name }) => `${kind} ${tenant ? `${tenant}/` : ""}${name}`;

function changeLine(one) {
  const fields = one.action === "changed" && one.fields?.length ? `: ${one.fields.join(", ")}` : "";
  return h("li", {}, h("b", {}, nameOf(one)), ` ${ACTIONS[one.action] ?? one.action}${fields}`);
}

export const changeList = (changes) => h("ul", { class: "told" }, changes.map(changeLine));

function figures(one) {
  if (!one) return NOTHING;
  if (one.falls_behind) return "falls behind";
  return one.drop > 0 ? `${ms(one.p95_ms)}, drop ${percent(one.drop)}` : ms(one.p95_ms);
}

function planTable(root, classes) {
  const table = new Table(root, [
    { title: "Class", head: true, fill: (cell, one) => setText(cell, one.name) },
    { title: "Target", number: true, fill: (cell, one) => setText(cell, ms(one.target_ms)) },
    { title: "p95 now", number: true, fill: (cell, one) => setText(cell, figures(one.before)) },
    { title: "p95 after", number: true, fill: (cell, one) => setText(cell, figures(one.after)) },
    { title: "Worst case", number: true, fill: (cell, one) => setText(cell, figures(one.at_worst)) },
    { title: "Target", whole: true, fill: (cell, one) => show(cell, one.holds ? badge("good", "met") : badge("bad", "missed")) },
  ]);
  table.update(classes.map((one) => [one.name, one]));
  return classes.filter((one) => one.why).map((one) => `${one.name}: ${one.why}`);
}

const lines = (items) => h("ul", {}, items.map((one) => h("li", {}, one)));
const list = (title, items) => (items.length ? h("div", { class: "notice" }, h("b", {}, title), lines(items)) : null);
const more = (title, items) => (items.length ? h("details", {}, h("summary", {}, title), lines(items)) : null);

/** Shows a plan as text and a table; without a plan, the reason why there is none. */
export function planTold(plan) {
  if (!plan) return h("p", { class: "muted" }, NO_PLAN);
  const classes = h("div", {});
  const why = planTable(classes, plan.classes);
  return h("div", {},
    h("h3", {}, "Prediction"),
    h("p", {}, plan.holds ? badge("good", "Every delay target would be met") : badge("bad", "A delay target would be missed"),
      ` The lanes would be busy ${percent(plan.busy, 0)} of their time.`),
    classes,
    list("Warnings", plan.warnings),
    more("Why", why),
    more("Assumptions", plan.assumed));
}
