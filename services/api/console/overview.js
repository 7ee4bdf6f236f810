// Overview: table of classes, plots of the last minutes, and lending.

import { get, path } from "./api.js";
import { Classes, noClasses } from "./classes.js";
import { by, empty, h, problemBox, setText, show } from "./dom.js";
import { seconds } from "./format.js";
import { Lending } from "./lending.js";
import { moved } from "./moves.js";
import { Plots } from "./plots.js";
import { Polling } from "./polling.js";
import { Selection } from "./selection.js";

const RANGES = { "1 min": 60, "5 min": 300, "10 min": 600 };
const MOVES_SHOWN = 8;
// Age in seconds above which a notice says that the figures are old; figures are polled every second.
const OLD_S = 5;

export function overviewView({ me, go }) {
  const selection = new Selection();
  const classes = new Classes(by("classes"), selection);
  const plots = new Plots(by("plots"), by("plots-legend"));
  const lending = new Lending(by("lending"));
  let range = RANGES["5 min"];
  let past = null;

  const lookings = [
    new Polling(lookAtClasses, 1000, (problem) => classes.instead(explained(problem))),
    new Polling(lookAtHistory, 1500, () => plots.instead(empty("Nothing to plot."))),
    new Polling(lookAtLending, 3000, () => lending.instead(empty("Nothing to show."))),
  ];
  if (me.is_admin) lookings.push(new Polling(lookAtSystem, 3000, () => show(by("system-problems"))));

  async function lookAtClasses(signal) {
    const { items, age_s: age } = await get("/v1/classes", { signal });
    const isOld = age > OLD_S;
    by("stale").hidden = !isOld;
    setText(by("stale"), isOld ? `The system has not answered for ${seconds(age)}; the figures are of that age.` : "");
    selection.known(items.map((one) => one.name));
    if (items.length) classes.update(items);
    else classes.instead(noClasses(me, go));
  }

  async function lookAtHistory(signal) {
    const asked = new URLSearchParams([["seconds", range], ...selection.names.map((name) => ["tenant", name])]);
    past = await get(`/v1/history?${asked}`, { signal });
    drawn();
  }

  function drawn() {
    if (past?.at.length && selection.names.length) plots.update(past, selection, range);
    else plots.instead(empty("Plots of the last minutes appear here for the classes ticked above, as soon as a class runs."));
  }

  async function lookAtLending(signal) {
    const told = await Promise.all(
      me.is_admin ? [get("/v1/lending", { signal })] : me.tenants.map((one) => get(path`/v1/tenants/${one}/lending`, { signal })),
    );
    const moves = moved(told.flatMap((one) => one.moves)).sort((a, b) => a.at.localeCompare(b.at));
    lending.update(told.flatMap((one) => one.items), moves.slice(-MOVES_SHOWN).reverse());
  }

  async function lookAtSystem(signal) {
    const told = await get("/v1/system", { signal });
    setText(by("system"), told.version);
    by("system").title = `up ${seconds(told.uptime_s)}`;
    show(by("system-problems"), told.problems.length && h("div", { class: "notice" },
      h("b", {}, "Not everything runs as declared"), h("ul", {}, told.problems.map((one) => h("li", {}, one)))));
  }

  function explained(problem) {
    if (problem.slug !== "not-running") return problemBox(problem);
    return empty("No system runs here: this service shows declarations only. Start a system with “weir up”; this page then shows it.");
  }

  show(by("plots-range"), h("legend", { class: "unseen" }, "Range"), Object.entries(RANGES).map(([title, value]) =>
    h("label", {}, h("input", {
      type: "radio", name: "range", value: title, checked: value === range,
      onchange: () => { range = value; lookings[1].now(); },
    }), title)));
  selection.addEventListener("change", () => lookings[1].now());
  addEventListener("weir-theme", drawn);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawn);

  return {
    start: () => lookings.forEach((one) => one.start()),
    stop: () => lookings.forEach((one) => one.stop()),
  };
}
