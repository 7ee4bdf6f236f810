// Lending between classes, as a picture in which bands from lenders to borrowers are as wide as the lent processor time.
// A table shows the same data, and a text lists the last moves of shares.

import { empty, h, s, setText, show } from "./dom.js";
import { number, seconds } from "./format.js";
import { decisionLines } from "./moves.js";
import { Table } from "./table.js";

const BANDS_MOST = 10;
const ROW = 46;
const BAND_MOST = 26;
const NAME_PIXELS = 7.6;
const NOTHING_LENT = "No class has lent anything yet. Classes lend while they need less than their share and another class needs more.";

const between = (items) =>
  items
    .filter((one) => one.lent_s > 0 && one.lender !== one.borrower)
    .map(({ lent_s: lent, ...one }) => ({ ...one, lent }))
    .sort((a, b) => b.lent - a.lent);

function totals(found, side) {
  const sums = new Map();
  for (const one of found) sums.set(one[side], (sums.get(one[side]) ?? 0) + one.lent);
  return [...sums].sort(([, a], [, b]) => b - a);
}

function cut(name, width) {
  const most = Math.max(4, Math.floor(width / NAME_PIXELS));
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function label(name, told, x, y, anchor, width) {
  return s("g", {}, s("title", {}, name),
    s("text", { x, y: y - 3, "text-anchor": anchor }, cut(name, width)),
    s("text", { x, y: y + 13, "text-anchor": anchor, class: "muted" }, told));
}

function flow(found, width) {
  const side = Math.min(170, width * 0.32);
  const [lenders, borrowers] = [totals(found, "lender"), totals(found, "borrower")];
  const height = ROW * Math.max(lenders.length, borrowers.length) + 24;
  const most = Math.max(...lenders.map(([, sum]) => sum), ...borrowers.map(([, sum]) => sum));
  const place = (list) => new Map(list.map(([name], at) => [name, 24 + (height - 24) * ((at + 0.5) / list.length)]));
  const [from, to] = [place(lenders), place(borrowers)];
  const thick = (lent) => Math.max(1.5, (BAND_MOST * lent) / most);
  const used = { from: new Map(), to: new Map() };
  // Stack the bands of a class next to each other, so that they do not overlap.
  const next = (which, name, sum, lent) => {
    const before = used[which].get(name) ?? -thick(sum) / 2;
    used[which].set(name, before + thick(lent));
    return before + thick(lent) / 2;
  };
  const sums = { from: new Map(lenders), to: new Map(borrowers) };
  const [x0, x1] = [side + 10, width - side - 10];
  const bands = found.map(({ lender, borrower, lent }) => {
    const y0 = from.get(lender) + next("from", lender, sums.from.get(lender), lent);
    const y1 = to.get(borrower) + next("to", borrower, sums.to.get(borrower), lent);
    const bend = (x1 - x0) / 2;
    return s("path", { class: "band", "stroke-width": thick(lent), d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}` },
      s("title", {}, `${lender} has lent ${borrower} ${seconds(lent)}`));
  });
  const nodes = (list, at, x) => list.map(([name, sum]) => s("rect", { class: "node", x: x - 3, width: 6, y: at.get(name) - thick(sum) / 2 - 1, height: thick(sum) + 2, rx: 2 }));
  const picture = s("svg", { class: "flow", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Processor time from lenders to borrowers; the table shows the same data." },
    s("text", { class: "muted", x: side, y: 12, "text-anchor": "end" }, "lends"),
    s("text", { class: "muted", x: width - side, y: 12 }, "borrows"),
    bands, nodes(lenders, from, x0), nodes(borrowers, to, x1),
    lenders.map(([name, sum]) => label(name, seconds(sum), side, from.get(name), "end", side)),
    borrowers.map(([name, sum]) => label(name, seconds(sum), width - side, to.get(name), "start", side)));
  return picture;
}

export class Lending {
  #root; #picture; #pairs; #moves; #loans; #changes; #note; #table = null; #last = []; #seen = "";

  constructor(root) {
    this.#root = root;
    this.#picture = h("div", {});
    this.#pairs = h("div", {});
    this.#moves = h("div", {});
    new ResizeObserver(() => this.#draw()).observe(this.#picture);
  }

  update(items, moves) {
    const found = between(items);
    if (!found.length && !moves.length) {
      this.instead(empty(NOTHING_LENT));
      return;
    }
    if (!this.#table) {
      this.#table = new Table(this.#pairs, [
        { title: "Lender", head: true, fill: (cell, one) => setText(cell, one.lender) },
        { title: "Borrower", fill: (cell, one) => setText(cell, one.borrower) },
        { title: "Processor time", number: true, fill: (cell, one) => setText(cell, seconds(one.lent)) },
        { title: "Now, processors", number: true, fill: (cell, one) => setText(cell, number(one.now)) },
      ], { cards: false });
      const all = h("details", {}, h("summary", {}, "As a table"), this.#pairs);
      this.#note = h("p", { class: "muted" }, NOTHING_LENT);
      this.#loans = h("div", {}, this.#picture, all);
      this.#changes = h("div", {}, this.#note, h("h3", {}, "Last moves of shares"), this.#moves);
      show(this.#root, h("div", { class: "lending" }, this.#loans, this.#changes));
    }
    this.#loans.hidden = !found.length;
    this.#changes.hidden = !moves.length;
    this.#note.hidden = found.length > 0;
    this.#table.update(found.map((one) => [`${one.lender} ${one.borrower}`, one]));
    this.#last = found.slice(0, BANDS_MOST);
    this.#draw();
    if (this.#seen !== JSON.stringify(moves)) show(this.#moves, decisionLines(moves, "No share has changed recently."));
    this.#seen = JSON.stringify(moves);
  }

  instead(...content) {
    this.#table = null;
    this.#seen = "";
    this.#last = [];
    show(this.#root, ...content);
  }

  #draw() {
    const width = this.#picture.clientWidth;
    if (width && this.#last.length) show(this.#picture, flow(this.#last, width));
  }
}
