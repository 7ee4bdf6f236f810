// Additions to the chart library: markers that distinguish lines without colours, and a box with all values under the cursor.

import { h, show } from "./dom.js";
import { MARKERS, STYLES, swatch } from "./selection.js";

const MARKERS_A_LINE = 7;
const FONT = "12px system-ui, sans-serif";

/** Steps between the ticks of an axis: 1, 2 or 5 times a power of ten. */
export const STEPS = Array.from({ length: 33 }, (_, place) => [1, 2, 5].map((digit) => Number(`${digit}e${place - 16}`))).flat();

/** Returns the colours of the style sheet, because a canvas cannot read its variables. */
export function textAxes(element) {
  const probe = h("span", { class: "plot-probe" });
  element.append(probe);
  const colour = (name) => {
    probe.style.setProperty("color", `var(--${name})`);
    return globalThis.getComputedStyle(probe).color;
  };
  const [text, muted, line] = ["text", "muted", "line"].map(colour);
  const series = STYLES.map((_, slot) => colour(`series-${slot + 1}`));
  probe.remove();
  const axis = { stroke: muted, font: FONT, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  return { text, series, axis };
}

/** Draws some markers on every line, at different positions for each line. */
export function markers(slots, { series }) {
  return { hooks: { drawSeries: (u, at) => {
    const slot = slots[at - 1];
    if (slot === undefined) return;
    const [times, values] = [u.data[0], u.data[at]];
    const [first, last] = u.series[0].idxs ?? [0, times.length - 1];
    const step = Math.max(1, Math.ceil((last - first) / MARKERS_A_LINE));
    const outline = new Path2D(MARKERS[STYLES[slot].marker]);
    u.ctx.save();
    u.ctx.fillStyle = series[slot];
    for (let index = last - Math.round((step * (at - 1)) / slots.length); index >= first; index -= step) {
      if (values[index] === null || values[index] === undefined) continue;
      u.ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, u.valToPos(times[index], "x", true), clipped(u, values[index]));
      u.ctx.fill(outline);
    }
    u.ctx.restore();
  } } };
}

const clipped = (u, value) => Math.max(u.bbox.top, u.valToPos(value, "y", true));

/** Shows the values under the cursor as text. */
export function reading(tell) {
  const box = h("div", { class: "reading", hidden: true });
  return { hooks: {
    init: (u) => u.over.append(box),
    setCursor: (u) => {
      const { idx, left } = u.cursor;
      box.hidden = idx === null || idx === undefined || left < 0 || !u.shown?.length;
      if (box.hidden) return;
      show(box, h("div", {}, `${Math.round(-u.data[0][idx])} s ago`),
        u.shown.map(({ name, slot, one }) => h("div", {}, swatch(slot), `${name}: ${tell(one, idx)}`)));
      const isRight = left > u.over.clientWidth / 2;
      box.style.setProperty("left", isRight ? "auto" : `${left + 12}px`);
      box.style.setProperty("right", isRight ? `${u.over.clientWidth - left + 12}px` : "auto");
    },
  } };
}
