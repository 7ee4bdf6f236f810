// Feeds view: state, rate, lag, late and rejected rows of each feed, and its last error for administrators.

import { get } from "./api.js";
import { badge, by, empty, h, problemBox, setText, show } from "./dom.js";
import { clock, perSecond, percent, seconds, short, whole } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const STATES = {
  starting: ["warned", "starting"],
  running: ["good", "running"],
  failed: ["bad", "failed"],
  waiting: ["bad", "waits for Spark"],
  stopped: ["bad", "stopped"],
};
const DAY_S = 86_400;
// If more than this fraction of a stream's rows is rejected, it is shown as bad.
const MOSTLY = 0.5;

/** Returns the last error as a sentence with its time, also for a feed that runs again. */
function errorOf({ state, last_error: error, last_error_at: at }) {
  const when = at ? `${clock(at)}: ` : "";
  return state === "running" ? `It runs again after an error. ${when}${error}.` : `${when}${error}.`;
}

function fillState(cell, one) {
  const told = JSON.stringify([one.state, one.last_error, one.last_error_at]);
  if (cell.seen !== told) {
    cell.seen = told;
    cell.tries = h("small", { class: "muted" });
    show(cell, h("div", { class: "badges" }, badge(...STATES[one.state])),
      one.last_error && h("small", { class: one.state === "running" && "muted" }, errorOf(one)),
      cell.tries);
  }
  setText(cell.tries, one.next_try_s === null ? "" : ` Next try in ${Math.ceil(one.next_try_s)} s.`);
}

/** Shows the lag of a feed: in event time, and in unread offsets of its source. */
function fillLag(cell, one) {
  const parts = [];
  if (one.behind_s !== null) parts.push(one.behind_s < 2 * DAY_S ? seconds(one.behind_s) : `${whole(one.behind_s / DAY_S)} days`);
  if (one.lag) parts.push(`${short(one.lag)} to read`);
  setText(cell, parts.join(", ") || (one.lag === 0 ? "none" : "–"));
}

/** Shows the fraction of offered rows that arrived after their windows had closed. */
function fillLate(cell, streams) {
  const sum = (name) => streams.reduce((before, stream) => before + stream[name], 0);
  setText(cell, sum("offered") ? percent(sum("late") / sum("offered")) : "–");
}

/** Shows the number of rows that gateways rejected, with the last reason. */
function fillRejected(cell, streams) {
  const lost = streams.filter((stream) => stream.rejected);
  const told = JSON.stringify(lost.map((stream) => [stream.rejected, stream.last_reason, stream.rejected_now]));
  if (cell.seen === told) return;
  cell.seen = told;
  if (!lost.length) return setText(cell, "0");
  const worst = lost.reduce((most, stream) => (stream.rejected_now > most.rejected_now ? stream : most));
  const rows = short(lost.reduce((sum, stream) => sum + stream.rejected, 0));
  show(cell, worst.rejected_now > MOSTLY ? badge("bad", rows) : rows, h("small", { class: "muted" }, ` ${worst.last_reason}`));
}

const FEEDS = [
  { title: "Feed", head: true, fill: (cell, one) => setText(cell, one.name) },
  { title: "State", fill: fillState, whole: true },
  { title: "Rows", number: true, fill: (cell, one) => setText(cell, perSecond(one.rows_per_s)) },
  { title: "Behind", number: true, fill: fillLag },
  { title: "Late", number: true, fill: (cell, one) => fillLate(cell, one.streams) },
  { title: "Rejected", number: true, fill: (cell, one) => fillRejected(cell, one.streams) },
  { title: "Last batch", number: true, fill: (cell, one) => setText(cell, one.batch_at ? clock(one.batch_at) : "none yet") },
  { title: "Restarts", number: true, fill: (cell, one) => setText(cell, whole(one.restarts)) },
  { title: "Streams", fill: (cell, one) => setText(cell, one.streams.map((stream) => stream.name).join(", ")) },
];
const SOURCE = { title: "Source", fill: (cell, one) => setText(cell, one.format) };

const PUSHED = [
  { title: "Stream", head: true, fill: (cell, one) => setText(cell, one.name) },
  { title: "Rows", number: true, fill: (cell, one) => setText(cell, perSecond(one.rows_per_s)) },
  { title: "Accepted", number: true, fill: (cell, one) => setText(cell, short(one.rows)) },
  { title: "Late", number: true, fill: (cell, one) => fillLate(cell, [one]) },
  { title: "Rejected", number: true, fill: (cell, one) => fillRejected(cell, [one]) },
];

/** Computes rates from counts that the service updates every few seconds. */
class Rates {
  #before = new Map();

  of(name, rows, nowMs) {
    const [countBefore, thenMs, rate] = this.#before.get(name) ?? [rows, nowMs, null];
    const elapsed = (nowMs - thenMs) / 1000;
    if (rows === null || rows < countBefore) this.#before.set(name, [rows, nowMs, null]);
    else if (elapsed === 0 || elapsed >= 6) this.#before.set(name, [rows, nowMs, elapsed ? (rows - countBefore) / elapsed : null]);
    else return rate;
    return this.#before.get(name)[2];
  }
}

export function feedsView({ me }) {
  const roots = { feeds: by("feeds-table"), pushed: by("pushed-table") };
  const rates = new Rates();
  const columns = { feeds: me.is_admin ? [...FEEDS.slice(0, 2), SOURCE, ...FEEDS.slice(2)] : FEEDS, pushed: PUSHED };
  const nothing = {
    feeds: "There is no feed. Administrators declare one with “weir apply”: a stream with a source, or a document of kind Feed.",
    pushed: "Every stream has a feed.",
  };
  const tables = {};

  const instead = (name, ...content) => {
    delete tables[name];
    show(roots[name], ...content);
  };

  function fill(name, items) {
    if (!items.length) return instead(name, empty(nothing[name]));
    tables[name] ??= new Table(roots[name], columns[name]);
    tables[name].update(items.map((one) => [one.name, one]));
  }

  async function look(signal) {
    const { items, pushed } = await get("/v1/feeding", { signal });
    const now = performance.now();
    fill("feeds", items);
    fill("pushed", pushed.map((one) => ({ ...one, rows_per_s: rates.of(one.name, one.rows, now) })));
  }

  const looking = new Polling(look, 2000, (problem) => {
    instead("feeds", problem.slug === "not-running" ? empty("No system runs here, so no feed is read.") : problemBox(problem));
    instead("pushed");
  });
  return { start: () => looking.start(), stop: () => looking.stop() };
}
