// Keyboard shortcuts: single keys, inactive while the user types in a field.

import { by, h } from "./dom.js";

const WRITES = "input, select, textarea, dialog";
const SHORTCUTS = [
  ["/", "Search in the visible view"],
  ["1 … 9", "Go to the first to ninth view"],
  ["← →", "Go to the previous or next view, while a tab has the focus"],
  ["?", "Show these shortcuts"],
];

function explain() {
  const lines = SHORTCUTS.map(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)]);
  const dialog = h("dialog", { class: "card", "aria-labelledby": "shortcuts-title" },
    h("form", { method: "dialog" }, h("h2", { id: "shortcuts-title" }, "Keyboard shortcuts"),
      h("dl", { class: "facts" }, lines.flat()),
      h("div", { class: "buttons" }, h("button", { autofocus: true }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** Handles a key; returns true if it was a shortcut. */
function done(key) {
  if (key === "?") explain();
  else if (key === "/") {
    const search = [...document.querySelectorAll("[role=tabpanel]:not([hidden]) input[type=search]")].find((field) => field.checkVisibility());
    search?.focus();
    return Boolean(search);
  } else if (/^[1-9]$/.test(key)) {
    const tab = by("tabs").querySelectorAll("[role=tab]")[Number(key) - 1];
    tab?.click();
    return Boolean(tab);
  } else return false;
  return true;
}

export function installShortcuts() {
  by("shortcuts").addEventListener("click", explain);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(WRITES)) return;
    if (done(event.key)) event.preventDefault();
  });
}
