// Decisions as lines in words; of decisions about shares those that have moved any.

import { empty, h } from "./dom.js";
import { clock } from "./format.js";

/** Most redistributions leave shares as they are. */
export const moved = (items) =>
  items.filter(({ figures: { before, after } }) => JSON.stringify(before) !== JSON.stringify(after));

export function decisionLines(items, none) {
  return items.length ? h("ul", { class: "told" }, items.map(line)) : empty(none);
}

function line({ at, words, since, more = 0 }) {
  const rest = more ? h("span", { class: "muted" }, ` and ${more} more like it since ${clock(since)}`) : null;
  return h("li", {}, h("time", { datetime: at }, clock(at)), words, rest);
}

/** Decisions of one kind that follow one another are one: a class decides seven times a second. Newest first. */
export function grouped(items) {
  const groups = [];
  for (const one of items) {
    const last = groups.at(-1);
    const { repeated = 0, since = null } = one.figures;
    if (last?.branch === one.branch && last.unit === one.unit)
      Object.assign(last, { since: since ?? one.at, more: last.more + 1 + repeated });
    else groups.push({ ...one, since: since ?? one.at, more: repeated });
  }
  return groups;
}
