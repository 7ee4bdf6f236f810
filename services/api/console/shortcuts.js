// Shortcuts of the keyboard: one letter each, and none while something is written.

import { by, h } from "./dom.js";

const WRITES = "input, select, textarea, dialog";
const SHORTCUTS = [
  ["/", "Find in the view that is shown"],
  ["1 … 9", "Go to the first, second, … view"],
  ["← →", "Go to the view before or after, while a tab has the focus"],
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

/** Has something been done for the key? */
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
