// Audit view: changes of declarations and keys, with time, author and changed fields.

import { get } from "./api.js";
import { by, empty, h, problemBox, setText, show } from "./dom.js";
import { moment } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const PAGE = 200;
const COLUMNS = [
  { title: "Changed item", head: true, fill: (cell, entry) => setText(cell, `${entry.kind} ${entry.name}`) },
  { title: "Change", fill: (cell, entry) => setText(cell, entry.action) },
  { title: "Fields", fill: (cell, entry) => setText(cell, entry.fields.join(", ")) },
  { title: "Changed by", fill: (cell, entry) => setText(cell, entry.who) },
  { title: "When", fill: (cell, entry) => setText(cell, moment(entry.at)) },
];

export function auditView() {
  const [root, find] = [by("audit-list"), by("audit-find")];
  const [body, older] = [h("div", {}), h("button", { type: "button", class: "more", hidden: true, onclick: () => more() }, "Older changes")];
  // Changes, newest first. The first page is polled repeatedly, older pages are read once.
  let [first, rest, next] = [[], [], null];
  let table = null;

  find.addEventListener("input", draw);

  async function look(signal) {
    const page = await get(`/v1/audit?${new URLSearchParams({ limit: PAGE })}`, { signal });
    // Entries that have moved off the first page are kept with the older entries.
    const newest = new Set(page.items.map((entry) => entry.id));
    if (rest.length) rest = [...first.filter((entry) => !newest.has(entry.id)), ...rest];
    else ({ next } = page);
    first = page.items;
    draw();
  }

  async function more() {
    const page = await get(`/v1/audit?${new URLSearchParams({ limit: PAGE, after: next })}`);
    [rest, next] = [[...rest, ...page.items], page.next];
    draw();
  }

  function draw() {
    const part = find.value.trim().toLowerCase();
    const entries = [...first, ...rest];
    const found = entries.filter((entry) => [entry.kind, entry.name, entry.who, entry.action, ...entry.fields].join(" ").toLowerCase().includes(part));
    if (!entries.length) {
      table = null;
      show(root, empty("No changes yet."));
      return;
    }
    if (!table) {
      show(root, body, older);
      table = new Table(body, COLUMNS);
    }
    table.update(found.map((entry) => [entry.id, entry]));
    older.hidden = next === null;
  }

  const looking = new Polling(look, 5000, (problem) => {
    table = null;
    show(root, problemBox(problem));
  });
  return { start: () => looking.start(), stop: () => looking.stop() };
}
