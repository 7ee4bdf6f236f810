// Lists of decisions as text; share decisions are listed only if they moved a share.

import { empty, h } from "./dom.js";
import { clock } from "./format.js";

/** Returns the share decisions that changed a share; most redistributions change none. */
export const moved = (items) =>
  items.filter(({ figures: { before, after } }) => JSON.stringify(before) !== JSON.stringify(after));

export function decisionLines(items, none) {
  return items.length ? h("ul", { class: "told" }, items.map(line)) : empty(none);
}

function line({ at, words, since, more = 0 }) {
  const rest = more ? h("span", { class: "muted" }, ` and ${more} more like it since ${clock(since)}`) : null;
  return h("li", {}, h("time", { datetime: at }, clock(at)), words, rest);
}

/** Merges consecutive decisions of the same branch, because a class decides seven times per second. Newest first. */
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
