// Decisions view: the last decisions about a class as text, and its operators with their measurements.

import { get, path } from "./api.js";
import { by, empty, h, problemBox, setText, show } from "./dom.js";
import { number, short } from "./format.js";
import { decisionLines, grouped, moved } from "./moves.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const LAST = 200;
const SHOWN = 25;
/** Formats a figure of an operator: "–" before its first tuple, and a tilde before first estimates. */
const measured = (one, value) => (!one.tuples && !one.measured ? "–" : `${one.measured ? "" : "~"}${number(value)}`);
const COLUMNS = [
  { title: "Operator", head: true, fill: (cell, one) => setText(cell, `${one.number} ${one.name}`) },
  { title: "Feeds", whole: true, fill: (cell, one) => setText(cell, one.feeds.join(", ") || "answers") },
  { title: "Queries", whole: true, fill: (cell, one) => setText(cell, one.queries.join(", ")) },
  { title: "Tuples", number: true, fill: (cell, one) => setText(cell, short(one.tuples)) },
  { title: "Cost, µs", number: true, fill: (cell, one) => setText(cell, measured(one, one.cost_us)) },
  { title: "Selectivity", number: true, fill: (cell, one) => setText(cell, measured(one, one.selectivity)) },
  { title: "Queued", number: true, fill: (cell, one) => setText(cell, short(one.queued)) },
];

export function decisionsView({ me, go }) {
  const [select, words, operators] = [by("decisions-class"), by("decisions-told"), by("operators")];
  let names = null;
  let wanted = "";
  let seen = "";
  let table = null;

  select.addEventListener("change", () => go("decisions", select.value));

  function offer(found) {
    if (JSON.stringify(found) !== JSON.stringify(names)) show(select, found.map((name) => h("option", { value: name }, name)));
    names = found;
    if (!names.includes(wanted)) wanted = names[0] ?? "";
    select.value = wanted;
    select.disabled = !names.length;
  }

  async function look(signal) {
    offer((await get("/v1/classes", { signal })).items.map((one) => one.name));
    if (!names.length) return nothing(empty(`No class runs yet, so there are no decisions. ${me.is_admin ? "Onboard a tenant with a query" : "Add a query"} first.`));
    const [explained, network] = await Promise.all([
      get(`${path`/v1/tenants/${wanted}/explain`}?last=${LAST}`, { signal }),
      get(path`/v1/tenants/${wanted}/operators`, { signal }),
    ]);
    explain(explained);
    table ??= new Table(operators, COLUMNS);
    return table.update(network.items.map((one) => [one.number, one]));
  }

  function explain({ words: now, items }) {
    const content = JSON.stringify([wanted, now, items]);
    if (content === seen) return;
    seen = content;
    const latest = [...items].reverse();
    const shares = moved(latest.filter((one) => one.about === "shares"));
    const loads = grouped(latest.filter((one) => one.about === "load"));
    const policies = grouped(latest.filter((one) => one.about === "policy"));
    show(words, h("p", {}, now),
      policies.length ? [h("h3", {}, "Policy and plan"), decisionLines(policies.slice(0, SHOWN), "")] : null,
      h("h3", {}, "Shares"), decisionLines(shares.slice(0, SHOWN), "Its share has not changed recently."),
      h("h3", {}, "Shedding"), decisionLines(loads.slice(0, SHOWN), "No decisions yet."));
  }

  function nothing(...content) {
    [seen, table] = ["", null];
    show(words, ...content);
    show(operators, empty("The operators of a class are shown here while it runs."));
  }

  const looking = new Polling(look, 3000, (problem) =>
    nothing(problem.slug === "not-running" ? empty("No system runs here, so there are no decisions.") : problemBox(problem)));
  return {
    start: (detail) => {
      wanted = detail || wanted;
      looking.start();
      looking.now();
    },
    stop: () => looking.stop(),
  };
}
