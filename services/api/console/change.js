// Form that changes one declaration: it previews the change with a prediction, and saves it unless the declaration changed meanwhile.

import { call } from "./api.js";
import { h, say, show } from "./dom.js";
import { changeList, planTold } from "./preview.js";

// Timeout for calls that make a prediction, which simulates some minutes.
const PLAN_MS = 60_000;
const WARNING = "Weir-Warning";

/**
 * Creates a form of `kind` around `content`. `document()` returns the document to send to `address`; `version` is the version that
 * the form was filled from, 0 for a new declaration. `kept` is called when the service has saved the document.
 */
export function changeForm({ kind, fields, content, address, version, document, kept, cancel, title }) {
  const outcome = h("div", { class: "outcome", role: "status" });
  const form = h("form", { novalidate: true, "aria-label": title },
    fields.box, content,
    h("div", { class: "buttons" },
      h("button", {}, "Preview"),
      h("button", { type: "button", class: "primary", onclick: () => send(false) }, "Save"),
      h("button", { type: "button", class: "quiet", onclick: cancel }, "Cancel")),
    outcome);
  // Enter in a field previews only, because that changes nothing.
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(true);
  });

  async function send(isDry) {
    const buttons = form.querySelectorAll(".buttons button");
    buttons.forEach((button) => { button.disabled = true; });
    fields.clear();
    show(outcome);
    try {
      const condition = version ? { "If-Match": `"${version}"` } : { "If-None-Match": "*" };
      const { content: answer, headers } = await call("PUT", `${address()}${isDry ? "?dry_run=true" : ""}`, { body: document(), headers: condition, timeoutMs: PLAN_MS });
      if (isDry) foreseen(answer);
      else kept(headers.get(WARNING) ?? "");
    } catch (problem) {
      fields.tell(problem, [kind]);
      if (problem.told?.plan) show(outcome, planTold(problem.told.plan));
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  }

  function foreseen({ changes, plan, warnings }) {
    const more = plan ? null : warnings.map((warning) => h("div", { class: "notice" }, warning));
    show(outcome, changeList(changes), more, planTold(plan));
    say("The preview is shown.");
  }

  return form;
}

/** Notices about a saved change, shown above the changed declaration. */
export const savedNotice = (name, warning) => [
  h("div", { class: "notice good", role: "status" }, h("b", {}, "Saved. "), `The change of ${name} takes effect within seconds.`),
  warning && h("div", { class: "notice" }, h("b", {}, "Warning: "), warning),
];
