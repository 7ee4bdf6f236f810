// Selection of plotted classes; each keeps its own colour, dash and marker while it is plotted.

import { s } from "./dom.js";

export const STYLES = [
  { dash: [], marker: "circle" },
  { dash: [8, 4], marker: "square" },
  { dash: [2, 3], marker: "triangle" },
  { dash: [12, 4, 2, 4], marker: "diamond" },
  { dash: [5, 2], marker: "cross" },
  { dash: [14, 3, 4, 3], marker: "down" },
];

/** Marker outlines as SVG paths around (0, 0), 8 pixels wide, for both canvas and SVG. */
export const MARKERS = {
  circle: "M4 0A4 4 0 1 1-4 0A4 4 0 1 1 4 0Z",
  square: "M-3.5-3.5H3.5V3.5H-3.5Z",
  triangle: "M0-4.5L4.5 3.5H-4.5Z",
  diamond: "M0-5L5 0L0 5L-5 0Z",
  cross: "M-4.5-1.5H-1.5V-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5Z",
  down: "M0 4.5L4.5-3.5H-4.5Z",
};

export class Selection extends EventTarget {
  #slots = Array(STYLES.length).fill(null);
  #isChosen = false;

  /** Sets the existing classes. Until the user makes a choice, the first classes are plotted. */
  known(names) {
    const before = this.names;
    this.#slots = this.#slots.map((name) => (names.includes(name) ? name : null));
    if (before.length && !this.names.length) this.#isChosen = false;
    if (!this.#isChosen) names.slice(0, STYLES.length).forEach((name) => this.#put(name));
    if (String(this.names) !== String(before)) this.dispatchEvent(new Event("change"));
  }

  set(name, isPlotted) {
    this.#isChosen = true;
    if (isPlotted) this.#put(name);
    else this.#slots = this.#slots.map((one) => (one === name ? null : one));
    this.dispatchEvent(new Event("change"));
  }

  #put(name) {
    const free = this.#slots.indexOf(null);
    if (free >= 0 && !this.#slots.includes(name)) this.#slots[free] = name;
  }

  get full() {
    return !this.#slots.includes(null);
  }

  get names() {
    return this.#slots.filter((name) => name !== null);
  }

  /** 0, 1, …; -1 if it is not plotted. */
  slot(name) {
    return this.#slots.indexOf(name);
  }
}

/** Returns a small picture of a slot's line and marker, for display next to a name. */
export function swatch(slot) {
  const { dash, marker } = STYLES[slot];
  return s("svg", { class: `swatch series-${slot + 1}`, viewBox: "0 0 34 12", "aria-hidden": "true" },
    s("line", { x1: 0, y1: 6, x2: 34, y2: 6, "stroke-dasharray": dash.join(" ") || null }),
    s("path", { d: MARKERS[marker], transform: "translate(17 6)" }));
}
