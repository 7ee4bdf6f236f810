// Tabs as in the ARIA practices: arrow keys move between them, and the page's URL names the visible tab.

import { by, h } from "./dom.js";

const MOVES = { ArrowRight: 1, ArrowLeft: -1 };

export class Tabs {
  #views; #changed; #buttons = new Map(); #shown = null;

  constructor(list, views, changed) {
    [this.#views, this.#changed] = [views, changed];
    for (const view of views) {
      const button = h("button", {
        type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": view.id, onclick: () => this.go(view.id),
      }, view.title);
      this.#buttons.set(view.id, button);
      list.append(button);
    }
    list.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("popstate", () => this.#follow());
  }

  begin() {
    this.#follow();
  }

  /** Shows a view; `detail` is passed to the view, for example the name of an item to open. */
  go(id, detail = "") {
    const hash = detail ? `#${id}/${encodeURIComponent(detail)}` : `#${id}`;
    // `pushState` keeps the focus on the tab; setting `location.hash` would take it away.
    if (location.hash !== hash) history.pushState(null, "", hash);
    this.#follow();
  }

  #follow() {
    const [id, detail = ""] = location.hash.slice(1).split("/");
    const now = this.#views.find((one) => one.id === id) ?? this.#views[0];
    const before = this.#shown;
    this.#shown = now;
    for (const view of this.#views) {
      const isShown = view === now;
      by(view.id).hidden = !isShown;
      this.#buttons.get(view.id).setAttribute("aria-selected", isShown);
      this.#buttons.get(view.id).tabIndex = isShown ? 0 : -1;
    }
    this.#changed(before, now, readable(detail));
  }

  #key(event) {
    const last = this.#views.length - 1;
    const here = this.#views.indexOf(this.#shown);
    let there = null;
    if (event.key in MOVES) there = (here + MOVES[event.key] + last + 1) % (last + 1);
    else if (event.key === "Home") there = 0;
    else if (event.key === "End") there = last;
    if (there === null) return;
    event.preventDefault();
    const { id } = this.#views[there];
    this.#buttons.get(id).focus();
    this.go(id);
  }
}

function readable(detail) {
  try {
    return decodeURIComponent(detail);
  } catch {
    return "";
  }
}
