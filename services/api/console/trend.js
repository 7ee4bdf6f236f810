// Plot of one numeric column of a query's answers over their first time column, or over their order if there is no time column.

import { kindOf, namesOf } from "./answer-table.js";
import { h, show } from "./dom.js";
import { figure, tickTexts } from "./format.js";
import { STEPS, textAxes } from "./plotting.js";

const HEIGHT = 180;
const POINTS_LEAST = 2;
const two = (value) => String(value).padStart(2, "0");

/** Returns the time of day in UTC, as in the table. */
function clock(second) {
  const at = new Date(1000 * second);
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
}

export class Trend {
  #canvas = h("div", { class: "canvas", role: "img" });
  #choice = h("select", { "aria-label": "Plotted column", onchange: () => this.#draw() });
  element = h("figure", { class: "trend", hidden: true }, h("figcaption", {}, h("label", {}, "Plot of ", this.#choice)), this.#canvas);
  #chart = null; #names = ""; #rows = []; #seen = "";

  constructor() {
    new ResizeObserver(([{ contentRect }]) => this.#chart?.setSize({ width: contentRect.width, height: HEIGHT })).observe(this.#canvas);
    addEventListener("weir-theme", () => { this.#seen = ""; });
  }

  /** Updates the plot; rows are given newest first. */
  update(rows) {
    this.#rows = rows.toReversed();
    const names = rows.length < POINTS_LEAST ? [] : namesOf(rows[0]).filter((name) => kindOf(rows.map((row) => row[name])) === "number");
    this.element.hidden = !names.length;
    if (!names.length) return;
    if (JSON.stringify(names) !== this.#names) {
      const before = this.#choice.value;
      // Choose the last column by default, because keys come before computed values.
      show(this.#choice, names.map((name) => h("option", { value: name }, name)));
      this.#choice.value = names.includes(before) ? before : names.at(-1);
      this.#names = JSON.stringify(names);
    }
    this.#draw();
  }

  #draw() {
    const name = this.#choice.value;
    const moments = namesOf(this.#rows[0]).find((one) => kindOf(this.#rows.map((row) => row[one])) === "moment");
    const points = this.#rows
      .map((row, place) => [moments ? Date.parse(row[moments]) / 1000 : place, row[name]])
      .filter(([at]) => Number.isFinite(at))
      .sort(([a], [b]) => a - b);
    const data = [points.map(([at]) => at), points.map(([, value]) => value)];
    const isLine = new Set(data[0]).size === points.length;
    const seen = JSON.stringify([name, moments, isLine, globalThis.getComputedStyle(this.#canvas).color]);
    if (seen === this.#seen && this.#chart) this.#chart.setData(data);
    else this.#make(data, name, moments, isLine);
    this.#seen = seen;
    this.#canvas.setAttribute("aria-label", `${name} over ${moments ?? "the order of answers"}. Last: ${figure(this.#rows.at(-1)[name] ?? 0)}.`);
  }

  #make(data, name, moments, isLine) {
    this.#chart?.destroy();
    const { axis, series } = textAxes(this.#canvas);
    const texts = moments ? (u, splits) => splits.map(clock) : (u, splits, at, space, step) => tickTexts.count(splits, step);
    this.#chart = new globalThis.uPlot({
      width: this.#canvas.clientWidth, height: HEIGHT,
      legend: { show: false },
      // Room for half of the last label.
      padding: [8, 30, 0, 0],
      cursor: { drag: { setScale: false, x: false } },
      scales: { x: { time: false } },
      axes: [
        { ...axis, size: 26, space: 80, incrs: moments ? [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400] : STEPS.filter((step) => step >= 1), values: texts },
        { ...axis, size: 60, space: 28, incrs: STEPS, values: (u, splits, at, space, step) => (step >= 1 ? tickTexts.count(splits, step) : tickTexts.plain(splits, step)) },
      ],
      series: [{}, { stroke: series[0], width: isLine ? 2 : 0, points: { show: !isLine || data[0].length < 60, size: 5, fill: series[0] } }],
    }, data, this.#canvas);
  }
}
