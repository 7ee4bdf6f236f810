// Plots over time: response time compared with the target, utility, share, load, drop, queued tuples and answers.

import { h, setText, show } from "./dom.js";
import { lateness, ms, number, percent, perSecond, short, tickTexts } from "./format.js";
import { markers, reading, STEPS, textAxes } from "./plotting.js";
import { STYLES, swatch } from "./selection.js";

const HEIGHT = 190;
// Minimum range of a plot; a system that has just started has little history, so its range is short.
const RANGE_LEAST_S = 30;
// Response times above this multiple of the target are drawn at the edge, so that one bad second does not flatten all others.
const TARGETS_SHOWN = 4;
// Loads above this are drawn at the edge; shed load is often far more than there are processors.
const LOAD_SHOWN = 2.5;

const atLeast = (least, most = Infinity) => (u, low, high) => [0, Math.min(most, Math.max(least, (high ?? 0) * 1.08))];

/**
 * The plots. `main` is drawn in the style of the class, `beside` thin and dotted; `tell` describes the values at one moment.
 */
const FIGURES = [
  {
    title: "Response time, p95", note: "relative to the class's target",
    main: (one) => one.p95_ms.map((value) => (value === null ? null : value / one.target_ms)),
    tell: (one, at) => `${ms(one.p95_ms[at])} of ${ms(one.target_ms)}`,
    range: atLeast(1.25, TARGETS_SHOWN), ticks: tickTexts.percent, line: 1,
  },
  {
    title: "Utility of answers", note: "thin: fraction that was late",
    main: (one) => one.utility, beside: (one) => one.missed,
    tell: (one, at) => `${percent(one.utility[at], 0)}, ${lateness(one.missed[at], one.tardy[at], one.staleness[at])}`,
    range: atLeast(1.001, 1.001), ticks: tickTexts.percent,
  },
  {
    title: "Share of the lanes", note: "thin: original share",
    main: (one) => one.share, beside: (one) => one.original,
    tell: (one, at) => `${percent(one.share[at], 0)}, entitled to ${percent(one.original[at], 0)}`,
    range: atLeast(0.2, 1.001), ticks: tickTexts.percent,
  },
  {
    title: "Load, processors", note: "thin: headroom",
    main: (one) => one.load, beside: (one) => one.headroom,
    tell: (one, at) => `${number(one.load[at])}, headroom ${number(one.headroom[at])}`,
    range: atLeast(0.2, LOAD_SHOWN), ticks: tickTexts.plain,
  },
  {
    title: "Drop", note: "fraction of the input that is shed",
    main: (one) => one.drop, tell: (one, at) => percent(one.drop[at]),
    range: atLeast(0.1, 1.001), ticks: tickTexts.percent,
  },
  {
    title: "Queued tuples", note: "waiting in the class",
    main: (one) => one.queued, tell: (one, at) => short(one.queued[at]),
    range: atLeast(10), ticks: tickTexts.count,
  },
  {
    title: "Answers", note: "per second",
    main: (one) => one.results_per_s, tell: (one, at) => perSecond(one.results_per_s[at]),
    range: atLeast(1), ticks: tickTexts.count,
  },
];

function ago(value, range) {
  if (value === 0) return "now";
  return range > 120 ? `−${-value / 60} min` : `−${-value} s`;
}

/** Plot of one figure; it is created again when other classes are plotted or colours change. */
class Plot {
  #figure; #canvas; #chart = null; #seen = "";

  constructor(figure) {
    this.#figure = figure;
    this.#canvas = h("div", { class: "canvas", role: "img" });
    this.element = h("figure", {},
      h("figcaption", {}, h("b", {}, figure.title), h("span", { class: "muted" }, figure.note)), this.#canvas);
    new ResizeObserver(([{ contentRect }]) => this.#chart?.setSize({ width: contentRect.width, height: HEIGHT })).observe(this.#canvas);
  }

  draw(times, drawn, range, theme) {
    const data = [times, ...drawn.map(({ one }) => this.#figure.main(one)), ...this.#besides(drawn)];
    const seen = JSON.stringify([drawn.map(({ name, slot }) => [name, slot]), range, theme]);
    if (seen === this.#seen && this.#chart) this.#chart.setData(data);
    else this.#make(data, drawn, range);
    this.#seen = seen;
    this.#chart.shown = drawn;
    const last = times.length - 1;
    const told = drawn.map(({ name, one }) => `${name} ${this.#figure.tell(one, last)}`).join("; ");
    this.#canvas.setAttribute("aria-label", `${this.#figure.title}. Now: ${told || "nothing"}.`);
  }

  #besides(drawn) {
    return this.#figure.beside ? drawn.map(({ one }) => this.#figure.beside(one)) : [];
  }

  #make(data, drawn, range) {
    this.#chart?.destroy();
    const axes = textAxes(this.#canvas);
    const thick = drawn.map(({ slot }) => ({ stroke: axes.series[slot], width: 2, dash: STYLES[slot].dash, points: { show: false } }));
    const thin = this.#figure.beside ? drawn.map(({ slot }) => ({ stroke: axes.series[slot], width: 1, dash: [1, 3], points: { show: false } })) : [];
    this.#chart = new globalThis.uPlot({
      width: this.#canvas.clientWidth, height: HEIGHT,
      legend: { show: false },
      cursor: { sync: { key: "weir" }, drag: { setScale: false, x: false }, points: { show: false } },
      scales: { x: { time: false, range: [-range, 0] }, y: { range: this.#figure.range } },
      axes: [
        { ...axes.axis, size: 26, space: 60, incrs: [5, 10, 15, 30, 60, 120, 300], values: (u, splits) => splits.map((value) => ago(value, range)) },
        { ...axes.axis, size: 50, space: 28, incrs: STEPS, values: (u, splits, axis, space, step) => this.#figure.ticks(splits, step) },
      ],
      series: [{}, ...thick, ...thin],
      plugins: [markers(drawn.map(({ slot }) => slot), axes), reading(this.#figure.tell), ...this.#lines(axes)],
    }, data, this.#canvas);
  }

  /** Draws a horizontal line at a value that has a meaning, such as the target. */
  #lines(axes) {
    const { line } = this.#figure;
    if (line === undefined) return [];
    return [{ hooks: { drawAxes: (u) => {
      const y = u.valToPos(line, "y", true);
      u.ctx.save();
      u.ctx.strokeStyle = axes.text;
      u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      u.ctx.lineWidth = 1.5 * devicePixelRatio;
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, y);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
      u.ctx.stroke();
      u.ctx.restore();
    } } }];
  }
}

export class Plots {
  #root; #legend; #plots = null; #named = "";

  constructor(root, legend) {
    [this.#root, this.#legend] = [root, legend];
  }

  /** Draws the answer of /v1/history. */
  update(past, selection, range) {
    const drawn = past.classes
      .map(({ name, series, delay_target_ms: target }) => ({ name, slot: selection.slot(name), one: { ...series, target_ms: target } }))
      .filter(({ slot }) => slot >= 0);
    if (!this.#plots) {
      this.#plots = FIGURES.map((figure) => new Plot(figure));
      show(this.#root, this.#plots.map((plot) => plot.element));
    }
    const last = past.at.at(-1);
    const times = past.at.map((at) => at - last);
    const shown = Math.min(range, Math.max(RANGE_LEAST_S, 15 * Math.ceil(-times[0] / 15)));
    for (const plot of this.#plots) plot.draw(times, drawn, shown, globalThis.getComputedStyle(this.#root).color);
    this.#name(drawn);
  }

  instead(...content) {
    this.#plots = null;
    show(this.#root, ...content);
    this.#name([]);
  }

  #name(drawn) {
    const named = JSON.stringify(drawn.map(({ name, slot }) => [name, slot]));
    if (named === this.#named) return;
    this.#named = named;
    show(this.#legend, drawn.map(({ name, slot }) => {
      const label = h("span", {}, swatch(slot), h("span", {}));
      setText(label.lastChild, name);
      return label;
    }));
  }
}
