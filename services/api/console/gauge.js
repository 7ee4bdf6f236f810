// Gauge: a figure above a bar; a line across the bar shows the wanted value.

import { h, s, setText } from "./dom.js";

export function gauge(cell, kind) {
  const level = s("rect", { class: kind, x: 0, y: 2, height: 10, rx: 2 });
  const target = s("rect", { class: "target", y: 0, width: 2.5, height: 14 });
  const picture = s("svg", { "aria-hidden": "true", preserveAspectRatio: "none" },
    s("rect", { class: "track", x: 0, y: 2, width: "100%", height: 10, rx: 2 }), level, target);
  const text = h("span", { class: "pair" });
  cell.append(h("div", { class: `gauge ${kind === "share" ? "small" : ""}` }, text, picture));
  cell.gauge = { level, target, text, picture };
}

export function setGauge({ gauge: { level, target } }, part, mark) {
  level.style.setProperty("width", `${100 * Math.min(1, Math.max(0, part))}%`);
  target.setAttribute("x", `${100 * Math.min(0.99, mark)}%`);
}

export function pair(text, main, small) {
  if (!text.firstChild) text.append(h("b", {}), " ", h("small", {}));
  setText(text.firstChild, main);
  setText(text.lastChild, small);
}
