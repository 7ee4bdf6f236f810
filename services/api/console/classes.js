// Table of classes: response time compared with the delay target, share of the lanes, drop rate, and state.

import { badge, by, empty, h, setText, show } from "./dom.js";
import { lateness, ms, percent, perSecond, short } from "./format.js";
import { gauge, pair, setGauge } from "./gauge.js";
import { swatch } from "./selection.js";
import { Table } from "./table.js";

// The search field is shown only for more classes than this.
const MANY = 10;
// Right end of the response time gauge, as a multiple of the delay target.
const REACH = 1.5;
// A smaller difference between shares is normal fluctuation, and is not shown as lending.
const MOVED = 0.01;
const SHEDS = 0.001;
// If more than this fraction of a stream's rows is late (behind the watermark), it is shown.
const LATE = 0.005;
// If more than this fraction of a query's rows fails, it is shown.
const FAILED = 0.01;

function fillResponse(cell, one) {
  const answers = answersNow(one);
  setGauge(cell, answers ? one.p95_ms / one.delay_target_ms / REACH : 0, 1 / REACH);
  cell.gauge.picture.setAttribute("class", isLate(one) ? "over" : "");
  pair(cell.gauge.text, answers ? ms(one.p95_ms) : "–", `of ${ms(one.delay_target_ms)}`);
}

function makeWorth(cell) {
  cell.text = h("span", { class: "pair worth" });
  cell.append(cell.text);
}

/** Shows the utility of answers, and the fraction that came after a deadline. */
function fillWorth(cell, one) {
  const answers = answersNow(one);
  const tardy = one.tardiness.due ? one.tardy_now : null;
  pair(cell.text, answers ? percent(one.utility_now, 0) : "–", answers ? lateness(one.missed_now, tardy, one.staleness_now) : "");
}

function fillShare(cell, one) {
  setGauge(cell, one.share.now, one.share.original);
  pair(cell.gauge.text, percent(one.share.now, 0), `entitled to ${percent(one.share.original, 0)}`);
}

export const dropOf = (one) => one.drop ?? (one.lossless ? 0 : 1 - one.keep);
/** True if the class has answered in the last seconds; otherwise there are no figures of response times. */
const answersNow = (one) => one.results_per_s > 0;
const isLate = (one) => answersNow(one) && one.p95_ms > one.delay_target_ms;

/** Returns the stream with the largest fraction of late rows, and that fraction. */
const latest = (one) => Object.entries(one.late_now ?? {}).reduce((most, each) => (each[1] > most[1] ? each : most), ["", 0]);

/** Colour of each state, and its icon if it differs from the colour's default icon. */
const LOOKS = {
  "given up": ["bad"], failing: ["bad"], starved: ["bad"], "over target": ["bad"],
  late: ["warned"], "losing rows": ["warned"], "held back": ["warned"], shedding: ["warned"],
  "within target": ["good"],
  running: ["", "◌"], idle: ["", "◌"], starting: ["", "◌"], "no queries": ["", "◌"],
};

/** Returns badges for the state of a class and for further facts about it, most important first. */
export function states(one) {
  const [kind, mark] = LOOKS[one.state] ?? [""];
  const found = [[kind, one.state, mark]];
  const [stream, part] = latest(one);
  if (one.state !== "shedding" && !one.asleep && dropOf(one) > SHEDS) found.push(["warned", "sheds"]);
  if (one.state !== "late" && part > LATE) found.push(["warned", `${percent(part, 0)} of ${stream} late`]);
  const failed = Math.max(0, ...(one.failures ?? []).map((failure) => failure.part));
  if (one.state !== "losing rows" && failed > FAILED) found.push(["warned", `${percent(failed, 0)} of a query's rows fail`]);
  if (one.share.now > one.share.original + MOVED) found.push(["", "borrows", "←"]);
  if (one.share.now < one.share.original - MOVED) found.push(["", "lends", "→"]);
  return found;
}

function fillStates(cell, one) {
  const badges = states(one);
  const key = JSON.stringify([badges, one.reason]);
  if (cell.badges === key) return;
  cell.badges = key;
  const explained = ["bad", "warned"].includes(badges[0][0]);
  show(cell, h("div", { class: "badges", title: one.reason }, badges.map((parts) => badge(...parts))),
    explained && h("small", { class: "reason" }, one.reason));
}

export class Classes {
  #root; #selection; #table = null; #last = []; #find = by("classes-find");

  constructor(root, selection) {
    [this.#root, this.#selection] = [root, selection];
    this.#find.querySelector("input").addEventListener("input", () => this.#fill());
    selection.addEventListener("change", () => this.#fill());
  }

  update(items) {
    this.#last = items;
    this.#fill();
  }

  /** Shows other content in place of the table. */
  instead(...content) {
    this.#table = null;
    this.#last = [];
    show(this.#root, ...content);
  }

  #fill() {
    if (!this.#last.length) return;
    this.#table ??= this.#made();
    this.#find.hidden = this.#last.length <= MANY;
    const wanted = this.#find.querySelector("input").value.trim().toLowerCase();
    const found = this.#last.filter((one) => one.name.toLowerCase().includes(wanted));
    this.#table.update(found.map((one) => [one.name, one]));
  }

  #made() {
    return new Table(this.#root, [
      { title: "Class", head: true, make: (cell, one) => this.#makeName(cell, one), fill: (cell, one) => this.#fillName(cell, one) },
      { title: "Response time, p95", make: (cell) => gauge(cell, "level"), fill: fillResponse, whole: true },
      { title: "Utility", make: makeWorth, fill: fillWorth, whole: true },
      { title: "Share of the lanes", make: (cell) => gauge(cell, "share"), fill: fillShare, whole: true },
      { title: "Drop", number: true, fill: (cell, one) => setText(cell, percent(dropOf(one))) },
      { title: "Queued", number: true, fill: (cell, one) => setText(cell, short(one.queued)) },
      { title: "Answers", number: true, fill: (cell, one) => setText(cell, perSecond(one.results_per_s)) },
      { title: "State", fill: fillStates, whole: true },
    ]);
  }

  #makeName(cell, one) {
    const box = h("input", {
      type: "checkbox", "aria-label": `Plot ${one.name}`,
      onchange: () => this.#selection.set(one.name, box.checked),
    });
    const picture = h("span", {});
    cell.append(h("label", { class: "pick" }, box, picture, h("span", {}, one.name)));
    cell.parts = { box, picture };
  }

  #fillName({ parts: { box, picture } }, one) {
    const slot = this.#selection.slot(one.name);
    box.checked = slot >= 0;
    box.disabled = slot < 0 && this.#selection.full;
    box.title = box.disabled ? "Six classes are plotted already: remove a class first." : "";
    if (picture.slot === slot) return;
    picture.slot = slot;
    show(picture, slot >= 0 && swatch(slot));
  }
}

export const noClasses = (me, go) =>
  empty(
    me.is_admin ? "No class runs yet. A tenant's class runs as soon as the tenant has a query." : "Your class does not run yet. It runs as soon as you have a query.",
    h("button", { type: "button", class: "primary", onclick: () => go("onboard") }, me.is_admin ? "Onboard a tenant" : "Add a query"),
  );
