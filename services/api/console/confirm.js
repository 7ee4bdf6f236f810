// Confirmation of actions that cannot be undone.

import { h } from "./dom.js";

/** Asks the user for confirmation; resolves to true if the user agrees. */
export function confirmed(question, consequence, doIt) {
  const dialog = h("dialog", { class: "card", "aria-labelledby": "question" },
    h("form", { method: "dialog" },
      h("h2", { id: "question" }, question),
      h("p", {}, consequence),
      h("div", { class: "buttons" },
        h("button", { value: "", autofocus: true }, "Keep it"),
        h("button", { value: "yes", class: "danger" }, doIt))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}
