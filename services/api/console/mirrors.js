// Mirrors view: freshness of the copies of remote objects; for administrators also bandwidth use and problems.

import { get } from "./api.js";
import { badge, by, empty, h, problemBox, setText, show } from "./dom.js";
import { clock, percent, short, whole } from "./format.js";
import { gauge, pair, setGauge } from "./gauge.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

/** Returns the badges of a mirror's state. */
function states(one) {
  if (one.state === "waiting") return [["bad", "cannot start"]];
  if (one.state === "starting") return [["warned", "starting"]];
  if (one.failing) return [["warned", `polls of ${whole(one.failing)} of ${whole(one.objects)} objects fail`]];
  if (one.floor_part < 1) return [["warned", "too little bandwidth for MIN FRESHNESS"]];
  return [["good", "polling"]];
}

function fillState(cell, one) {
  const last = one.last_problem;
  const told = JSON.stringify([states(one), last]);
  if (cell.seen === told) return;
  cell.seen = told;
  show(cell, h("div", { class: "badges" }, states(one).map((parts) => badge(...parts))),
    last && h("small", { class: "muted" }, `${clock(last.at)} ${last.told}`));
}

function fillFresh(cell, { objects, perceived_freshness: { measured, expected } }) {
  setGauge(cell, measured ?? 0, objects ? expected : 0);
  pair(cell.gauge.text, measured === null ? "not yet known" : percent(measured), objects ? `expected ${percent(expected)}` : "");
}

const FOR_ALL = [
  { title: "Mirror", head: true, fill: (cell, one) => setText(cell, one.name) },
  { title: "Perceived freshness", make: (cell) => gauge(cell, "level"), fill: fillFresh, whole: true },
  { title: "Objects held", number: true, fill: (cell, one) => setText(cell, one.objects ? `${whole(one.held)} of ${whole(one.objects)}` : "–") },
];
const FOR_ADMINISTRATORS = [
  {
    title: "Bandwidth", number: true,
    fill: (cell, one) => setText(cell, `${short(one.spent_per_s)} of ${short(one.bandwidth)} ${one.unit}/s`),
  },
  { title: "Changes", number: true, fill: (cell, one) => setText(cell, short(one.changes)) },
  { title: "Lookups", number: true, fill: (cell, one) => setText(cell, short(one.uses)) },
];
const STATE = { title: "State", fill: fillState, whole: true };

export function mirrorsView({ me }) {
  const root = by("mirrors-table");
  let table = null;

  const instead = (...content) => {
    table = null;
    show(root, ...content);
  };

  async function look(signal) {
    const { items } = await get("/v1/mirroring", { signal });
    if (!items.length) return instead(empty("There are no mirrors. Administrators declare a mirror with “weir apply”, as a document of kind Mirror."));
    table ??= new Table(root, [...FOR_ALL, ...(me.is_admin ? FOR_ADMINISTRATORS : []), STATE]);
    table.update(items.map((one) => [one.name, one]));
  }

  const looking = new Polling(look, 2000, (problem) =>
    instead(problem.slug === "not-running" ? empty("No system runs here, so no mirror is polled.") : problemBox(problem)));
  return { start: () => looking.start(), stop: () => looking.stop() };
}
