// Ledger view: an account of the offered tuples of each class and stream; an account that does not close has missing tuples.

import { get } from "./api.js";
import { badge, by, empty, h, problemBox, setText, show } from "./dom.js";
import { whole } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const FATES = ["delivered", "shed", "late", "rejected", "failed", "queued"];
const title = (name) => name[0].toUpperCase() + name.slice(1);

/** Returns the number of tuples that are not accounted for; 0 if the account closes. */
export const missing = (one) => one.offered - FATES.reduce((sum, fate) => sum + one[fate], 0);

function fillCloses(cell, one) {
  if (cell.told === one.closes) return;
  cell.told = one.closes;
  show(cell, one.closes ? badge("good", "closes") : badge("bad", `does not close: ${whole(missing(one))} missing`));
}

function sentence(items) {
  const open = items.filter((one) => !one.closes).length;
  if (open) return badge("bad", open === 1 ? "1 account does not close" : `${open} accounts do not close`);
  return badge("good", items.length === 1 ? "The account closes" : `All ${items.length} accounts close`);
}

/** Shows rows that gateways rejected; such rows reach no class, and so are in no account. */
const rejection = ({ stream, rows, reason }) => badge("warned", `${whole(rows)} rows of ${stream} rejected before any class: ${reason}`);

export function ledgerView() {
  const root = by("ledger-table");
  const [head, body] = [h("div", { class: "buttons" }), h("div", {})];
  let table = null;

  const instead = (...content) => {
    table = null;
    show(root, ...content);
  };

  async function look(signal) {
    const { items, rejected_at_gateways: rejected } = await get("/v1/ledger", { signal });
    if (!items.length && !rejected.length) return instead(empty("There are no accounts yet. An account begins when a query reads a stream."));
    if (!table) {
      show(root, head, body);
      table = new Table(body, [
        { title: "Class and stream", head: true, fill: (cell, one) => setText(cell, `${one.tenant} · ${one.stream}${one.ended ? " (ended)" : ""}`) },
        { title: "Offered", number: true, fill: (cell, one) => setText(cell, whole(one.offered)) },
        ...FATES.map((fate) => ({ title: title(fate), number: true, fill: (cell, one) => setText(cell, whole(one[fate])) })),
        { title: "Account", whole: true, fill: fillCloses },
      ]);
    }
    show(head, items.length > 0 && sentence(items), rejected.map(rejection));
    table.update(items.map((one) => [`${one.tenant} ${one.stream}`, one]));
  }

  const looking = new Polling(look, 2000, (problem) =>
    instead(problem.slug === "not-running" ? empty("No system runs here, so there are no accounts.") : problemBox(problem)));
  return { start: () => looking.start(), stop: () => looking.stop() };
}
