// The log of changes: each change of a declaration or a key, with its time, its author and the changed fields.

import { get } from "./api.js";
import { by, empty, h, problemBox, setText, show } from "./dom.js";
import { moment } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const PAGE = 200;
const COLUMNS = [
  { title: "What", head: true, fill: (cell, entry) => setText(cell, `${entry.kind} ${entry.name}`) },
  { title: "Change", fill: (cell, entry) => setText(cell, entry.action) },
  { title: "Fields", fill: (cell, entry) => setText(cell, entry.fields.join(", ")) },
  { title: "Changed by", fill: (cell, entry) => setText(cell, entry.who) },
  { title: "When", fill: (cell, entry) => setText(cell, moment(entry.at)) },
];

export function auditView() {
  const [root, find] = [by("audit-list"), by("audit-find")];
  const [body, older] = [h("div", {}), h("button", { type: "button", class: "more", hidden: true, onclick: () => more() }, "Older changes")];
  // The newest first; the first page is read again and again, older ones once.
  let [first, rest, next] = [[], [], null];
  let table = null;

  find.addEventListener("input", draw);

  async function look(signal) {
    const page = await get(`/v1/audit?${new URLSearchParams({ limit: PAGE })}`, { signal });
    // What has left the first page since is kept with the older ones.
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
      show(root, empty("Nothing has been changed yet."));
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
