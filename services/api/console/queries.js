// Queries view: list of queries, and the SQL and live answers of the selected query.

import { all, call, get, path } from "./api.js";
import { changeForm, savedNotice } from "./change.js";
import { confirmed } from "./confirm.js";
import { by, empty, h, problemBox, reveal, say, setText, show } from "./dom.js";
import { Fields } from "./fields.js";
import { moment, ms, percent, times, whole } from "./format.js";
import { given, input, numberOf, pointsOf, pointsText, textOf } from "./inputs.js";
import { Polling } from "./polling.js";
import { Results } from "./results.js";
import { senderToAny } from "./sender.js";

const SHOWN_MOST = 200;
const nameOf = ({ document: one }) => `${one.tenant}/${one.name}`;

/** Describes the rows that failed in a query or found no room there, with the most frequent reason. */
const failedInWords = (one) =>
  one?.failed ? `${percent(one.failed_now)} of its rows failed in the last minute of input, ${whole(one.failed)} in total: ${one.failed_reason}. ` : "";

/** Returns when a query runs, such as "waiting until 2026-11-21 08:00:00"; an empty text for a query without a start and an end. */
function runInWords({ run }) {
  if (run?.state === "waiting") return `waiting until ${moment(run.start)}`;
  if (run?.state === "ended") return `ended at ${moment(run.stop)}`;
  return run?.stop ? `until ${moment(run.stop)}` : "";
}

function inWords(one) {
  if (!one?.answers) return failedInWords(one);
  const { answers, mean_ms: mean, slowdown, deadline_ms: deadline, utility, staleness, tardiness, weight } = one;
  const missed = utility.missed ? `${whole(utility.missed)} after the deadline of ${ms(deadline)}` : `all within ${ms(deadline)}`;
  const slowed = slowdown ? ` (slowdown ${times(slowdown)})` : "";
  const weighs = weight === 1 ? "" : ` (weight ${times(weight)})`;
  const late = tardiness ? `; ${whole(tardiness.tardy)} of ${whole(tardiness.answers)} window answers tardy, by ${ms(tardiness.mean_ms)} on average` : "";
  return `${failedInWords(one)}${whole(answers)} answers in ${ms(mean)} on average${slowed}, ${missed}; utility ${percent(utility.mean)}, stale ${percent(staleness)} of the time${weighs}${late}`;
}

export function queriesView({ me, go }) {
  const [list, find, title, root] = [by("queries-list"), by("queries-find"), by("query-title"), by("query")];
  let items = [];
  let seen = "";
  let wanted = "";
  let opened = null;
  let results = null;
  let fare = null;
  let isEdited = false;
  let notice = null;

  find.addEventListener("input", draw);

  async function look(signal) {
    items = await all("/v1/queries", { signal });
    const now = JSON.stringify(items.map((one) => [nameOf(one), one.version, one.run?.state]));
    if (now !== seen) {
      seen = now;
      draw();
    }
    open();
    await tell(signal);
  }

  /** Shows the quality of the answers of the selected query. */
  async function tell(signal) {
    const [shown, found] = [fare, items.find((one) => nameOf(one) === wanted)];
    if (!shown || !found) return;
    try {
      const told = await get(path`/v1/tenants/${found.document.tenant}/quality`, { signal });
      setText(shown, inWords(told.items.find((one) => one.query === found.document.name)));
    } catch (problem) {
      if (signal.aborted || problem.away) throw problem;
      setText(shown, ""); // ignored: no system runs, or the system is starting
    }
  }

  function draw() {
    const looked = find.value.trim().toLowerCase();
    const found = items.filter((one) => `${nameOf(one)} ${one.document.sql}`.toLowerCase().includes(looked));
    find.parentElement.hidden = Boolean(seen) && !items.length;
    const rest = found.length - SHOWN_MOST;
    if (!found.length) show(list, items.length ? empty("No query has this text in its name or SQL.") : noQueries());
    else show(list, h("div", { class: "picks" }, found.slice(0, SHOWN_MOST).map(pick)), rest > 0 && empty(`and ${rest} more; search to see them`));
  }

  const noQueries = () => empty("There are no queries yet.",
    h("button", { type: "button", class: "primary", onclick: () => go("onboard") }, me.is_admin ? "Onboard a tenant" : "Add a query"));

  const pick = (one) => h("button", { type: "button", "aria-current": nameOf(one) === wanted ? "true" : null, onclick: () => choose(nameOf(one)) },
    h("b", {}, nameOf(one)), h("span", { class: "sql" }, one.document.sql),
    one.run && h("span", { class: "muted" }, runInWords(one)));

  function choose(name) {
    go("queries", name);
    reveal(title);
  }

  /** Shows the selected query if it exists; an unchanged query is not rendered again. */
  function open() {
    const found = items.find((one) => nameOf(one) === wanted);
    const now = found ? `${wanted} ${found.version}` : "";
    // An open form stays open: saving it fails if the query has changed meanwhile.
    if (opened === now || (isEdited && found)) return;
    opened = now;
    results?.stop();
    [results, fare] = [null, null];
    setText(title, found ? wanted : "Answers");
    if (!found) {
      show(root, empty(items.length ? "Choose a query to see its answers." : "Answers are shown here live."));
      return;
    }
    const { tenant, name, sql } = found.document;
    const answers = h("div", {});
    fare = h("p", { class: "muted" });
    const told = h("div", {});
    const asked = h("div", {}, h("pre", { class: "sql" }, sql));
    show(root,
      notice,
      asked,
      fare,
      answers,
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => edit(asked, found) }, "Edit the query"),
        h("button", { type: "button", onclick: () => go("decisions", tenant) }, "Decisions about its class"),
        h("button", { type: "button", class: "danger", onclick: () => remove(tenant, name, told) }, "Delete the query")),
      told,
      me.is_admin && senderToAny());
    results = new Results(answers, tenant, name);
  }

  /** Shows a form in place of the query's SQL; the answers below continue. */
  function edit(place, { document, version }) {
    const fields = new Fields();
    const sql = h("textarea", { name: "sql", spellcheck: "false", rows: Math.min(16, 2 + document.sql.split("\n").length) });
    sql.value = document.sql;
    const utility = input({ name: "utility", value: pointsText(document.utility), placeholder: "as in its class" });
    const weight = input({ name: "weight", inputmode: "decimal", value: textOf(document.weight), placeholder: "1" });
    const name = nameOf({ document });
    const form = changeForm({
      kind: "Query", fields, version, title: `Edit ${name}`,
      content: [
        fields.field("Query/sql", "SQL", sql),
        h("div", { class: "fields" },
          fields.field("Query/utility", "Utility by latency", utility, "points as MILLISECONDS:UTILITY, from 1 down to 0"),
          fields.field("Query/weight", "Weight of fresh answers", weight, "from 0.001 to 1000")),
      ],
      address: () => path`/v1/tenants/${document.tenant}/queries/${document.name}`,
      document: () => given({ ...document, sql: sql.value.trim(), utility: pointsOf(utility.value), weight: numberOf(weight.value) }),
      kept: (warning) => reopen(savedNotice(name, warning)),
      cancel: () => reopen(null),
    });
    isEdited = true;
    show(place, form);
    sql.focus();
  }

  function reopen(saved) {
    [isEdited, opened, notice] = [false, null, saved];
    looking.now();
  }

  async function remove(tenant, name, told) {
    if (!(await confirmed(`Delete the query ${tenant}/${name}?`, "The answers of the query are deleted as well.", "Delete it"))) return;
    try {
      await call("DELETE", path`/v1/tenants/${tenant}/queries/${name}`);
      say(`${tenant}/${name} has been deleted.`);
      go("queries");
      looking.now();
    } catch (problem) {
      show(told, problemBox(problem));
    }
  }

  const looking = new Polling(look, 4000, (problem) => show(list, problemBox(problem)));
  return {
    start: (detail) => {
      wanted = detail;
      [opened, isEdited, notice] = [null, false, null];
      looking.start();
      if (items.length) {
        draw();
        open();
      }
      looking.now();
    },
    stop: () => {
      looking.stop();
      results?.stop();
      [results, opened] = [null, null];
    },
  };
}
