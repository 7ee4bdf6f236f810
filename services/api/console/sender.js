// Form for sending hand-written rows to a stream, to try out queries.

import { all, call, path } from "./api.js";
import { badge, empty, h, problemBox, say, show } from "./dom.js";
import { whole } from "./format.js";

const EXAMPLES = { timestamp: () => new Date().toISOString(), string: () => "a", boolean: () => true };

/** Returns an example row for the columns of a stream. */
export function example({ columns }) {
  return Object.fromEntries(Object.entries(columns ?? {}).map(([name, kind]) => [name, EXAMPLES[kind]?.() ?? 1]));
}

function told({ accepted, rejected, reasons }) {
  const why = Object.entries(reasons ?? {}).map(([reason, count]) => `${reason} (${whole(count)})`).join(", ");
  return [
    badge(accepted ? "good" : "warned", `${whole(accepted)} accepted`),
    rejected ? badge("bad", `${whole(rejected)} rejected: ${why}`) : null,
  ];
}

/** Creates a text area for rows of a stream, and shows the outcome of sending them. */
export function sender(stream) {
  const rows = h("textarea", { rows: 3, spellcheck: "false", "aria-label": `Rows of ${stream.name}` });
  rows.value = JSON.stringify([example(stream)]);
  const outcome = h("div", { role: "status" });
  const send = async () => {
    try {
      const { content } = await call("POST", path`/v1/streams/${stream.name}/rows`, { body: JSON.parse(rows.value) });
      show(outcome, h("div", { class: "badges" }, told(content)));
      say(`${content.accepted} rows accepted.`);
    } catch (problem) {
      show(outcome, problemBox(problem instanceof SyntaxError ? { message: "This is not valid JSON.", hint: problem.message } : problem));
    }
  };
  return h("div", { class: "field" }, rows, h("div", { class: "buttons" },
    h("button", { type: "button", onclick: send }, `Send to ${stream.name}`), outcome));
}

/** Creates such a form with a choice of streams, which are fetched when it is opened. */
export function senderToAny() {
  const [choice, field] = [h("div", {}), h("div", {})];
  let asked = false;
  const offer = async () => {
    if (asked) return;
    asked = true;
    const streams = (await all("/v1/streams")).map((one) => one.document);
    if (!streams.length) return show(choice, empty("There are no streams yet."));
    const select = h("select", { "aria-label": "Stream", onchange: () => show(field, sender(streams[select.selectedIndex])) },
      streams.map((one) => h("option", {}, one.name)));
    show(choice, select);
    return show(field, sender(streams[0]));
  };
  const opened = () => offer().catch((problem) => {
    asked = false;
    show(choice, problemBox(problem));
  });
  return h("details", { ontoggle: opened }, h("summary", {}, "Send rows"), h("div", { class: "columns" }, choice, field));
}
