// Live answers of a query. The table is updated a few times per second, whatever the rate of answers. A hidden page reads
// nothing, and continues where it stopped when it is visible again.

import { get, path } from "./api.js";
import { badge, empty, h, say, setText, show } from "./dom.js";
import { AnswerTable } from "./answer-table.js";
import { csvOf, download } from "./csv.js";
import { short, whole } from "./format.js";
import { Trend } from "./trend.js";

const ROWS_SHOWN = 100;
// Number of answers kept for the plot and the CSV file.
const ROWS_KEPT = 1000;
const SHOWN_EVERY_MS = 250;
const AGAIN_MS = 3000;

export class Results {
  #root; #address; #source = null; #cursor = null; #rows = []; #seen = 0; #timer = null; #paused = false; #ended = false;
  #state = h("span", {}); #count = h("span", { class: "muted" }); #notes = h("div", {}); #table = h("div", {}); #pause; #file;
  #answers = null; #trend = new Trend();
  #onVisible = () => (document.hidden ? this.#close() : this.#open());

  constructor(root, tenant, query) {
    this.#root = root;
    this.#address = path`/v1/tenants/${tenant}/queries/${query}/results`;
    this.#pause = h("button", { type: "button", onclick: () => this.#toggle() }, "Pause");
    const oldest = h("button", { type: "button", onclick: () => this.#from(null) }, "From the oldest");
    this.#file = h("button", { type: "button", disabled: true, onclick: () => download(`${tenant}-${query}.csv`, csvOf(this.#rows.toReversed())) }, "Download CSV");
    show(this.#root, h("div", { class: "buttons" }, this.#pause, oldest, this.#file, this.#state, this.#count), this.#notes, this.#trend.element, this.#table);
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#from("latest");
  }

  stop() {
    this.#ended = true;
    document.removeEventListener("visibilitychange", this.#onVisible);
    this.#close();
  }

  #from(cursor) {
    this.#close();
    [this.#cursor, this.#rows, this.#seen, this.#paused, this.#ended] = [cursor, [], 0, false, false];
    setText(this.#pause, "Pause");
    show(this.#notes);
    this.#draw();
    this.#open();
  }

  #toggle() {
    this.#paused = !this.#paused;
    setText(this.#pause, this.#paused ? "Continue" : "Pause");
    if (this.#paused) this.#close();
    else this.#open();
    say(this.#paused ? "Answers are paused." : "Answers continue.");
  }

  #open() {
    if (this.#source || this.#paused || this.#ended || document.hidden) return;
    this.#announce("", "connecting", "◌");
    const query = this.#cursor === null ? "" : `?after=${encodeURIComponent(this.#cursor)}`;
    const source = new EventSource(`${this.#address}/stream${query}`);
    this.#source = source;
    source.addEventListener("open", () => this.#announce("good", "live", "●"));
    source.addEventListener("rows", (event) => this.#take(event));
    source.addEventListener("gap", (event) => this.#gap(event));
    source.addEventListener("end", () => this.#end());
    source.addEventListener("error", () => this.#failed(source));
  }

  #close() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#paused) this.#announce("", "paused", "‖");
  }

  #take(event) {
    const { rows } = JSON.parse(event.data);
    this.#cursor = event.lastEventId || this.#cursor;
    this.#seen += rows.length;
    this.#rows = [...rows.slice(-ROWS_KEPT).reverse(), ...this.#rows].slice(0, ROWS_KEPT);
    this.#timer ??= setTimeout(() => this.#draw(), SHOWN_EVERY_MS);
  }

  #gap(event) {
    const told = JSON.parse(event.data);
    this.#cursor = event.lastEventId || this.#cursor;
    this.#note(told.anew ? "The query has restarted: its answers are numbered from 0 again."
      : `${whole(told.missing)} answers were dropped before they could be read.`);
  }

  #end() {
    this.#ended = true;
    this.#close();
    this.#announce("", "ended", "■");
    this.#note("The query has been deleted.");
  }

  #failed(source) {
    if (source !== this.#source) return;
    if (source.readyState !== EventSource.CLOSED) {
      this.#announce("warned", "reconnecting");
      return;
    }
    // The answer was not an event stream; a plain call returns the reason.
    this.#close();
    this.#announce("warned", "not live");
    get(`${this.#address}?limit=1`).then(() => show(this.#notes), (problem) => this.#note(problem.message));
    this.#timer = setTimeout(() => { this.#timer = null; this.#open(); }, AGAIN_MS);
  }

  #note(text) {
    show(this.#notes, h("div", { class: "notice" }, text));
  }

  #announce(kind, text, icon) {
    show(this.#state, badge(kind, text, icon));
  }

  #draw() {
    this.#timer = null;
    setText(this.#count, this.#seen ? `${short(this.#seen)} answers${this.#seen > ROWS_SHOWN ? `, last ${ROWS_SHOWN} shown` : ""}` : "");
    this.#file.disabled = !this.#rows.length;
    this.#file.title = `At most the last ${whole(ROWS_KEPT)} answers`;
    this.#trend.update(this.#rows);
    if (!this.#rows.length) {
      this.#answers = null;
      show(this.#table, empty("New answers appear here as rows arrive. “From the oldest” also shows earlier answers."));
      return;
    }
    if (!this.#answers) {
      this.#answers = new AnswerTable();
      show(this.#table, this.#answers.element);
    }
    this.#answers.update(this.#rows.slice(0, ROWS_SHOWN));
  }
}
