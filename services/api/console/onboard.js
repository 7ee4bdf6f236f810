// Onboarding view: declares a tenant with its priority class, a stream and a first query in one change, after a preview.
// A user who signed in with a tenant's key can only add queries.

import { all, call, path } from "./api.js";
import { Columns } from "./columns.js";
import { by, empty, h, say, setText, show } from "./dom.js";
import { Fields } from "./fields.js";
import { ms, percent } from "./format.js";
import { given, input, numberOf, pointsOf } from "./inputs.js";
import { changeList, planTold } from "./preview.js";
import { example, sender } from "./sender.js";

const NAME_HINT = "A letter, then letters, digits, _ . or -";
const DEFAULT_DROP = 0.95;
// Timeout for calls that make a prediction, which simulates some minutes.
const PLAN_MS = 60_000;


export function onboardView({ me, go }) {
  const [form, root, preview] = [by("onboard-form"), by("onboard-fields"), by("preview")];
  const fields = new Fields();
  const parts = me.is_admin ? [tenantPart(fields), streamPart(fields)] : [];
  const query = queryPart(fields, me, () => parts[1]?.name() ?? "");
  parts.push(query);

  setText(by("onboard-title"), me.is_admin ? "Onboard a tenant" : "Add a query");
  show(root, fields.box, parts.map((part) => part.element), h("div", { class: "buttons" },
    h("button", {}, "Preview"),
    h("button", { type: "button", class: "primary", onclick: () => send(false) }, me.is_admin ? "Onboard" : "Add the query")));
  show(preview, empty("“Preview” checks the form and predicts whether all delay targets would be met. It changes nothing."));
  // Enter in a field previews only, because that changes nothing.
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(true);
  });

  function documents() {
    const tenant = me.is_admin ? parts[0].name() : query.tenant();
    return parts.flatMap((part) => part.documents(tenant));
  }

  async function send(isDry) {
    const sent = documents();
    const buttons = form.querySelectorAll(".buttons button");
    buttons.forEach((one) => { one.disabled = true; });
    fields.clear();
    try {
      const { content } = await declare(`/v1/apply${isDry ? "?dry_run=true" : ""}`, sent);
      if (!isDry) done(sent, content);
      else foreseen(content, await predicted(content, sent));
    } catch (problem) {
      refused(problem, sent);
    } finally {
      buttons.forEach((one) => { one.disabled = false; });
    }
  }

  const declare = (address, sent) => call("POST", address, { body: { documents: sent }, timeoutMs: PLAN_MS });

  /** Returns the prediction, with the expected rate of a new stream if the form has one. */
  async function predicted({ plan }, sent) {
    const rate = parts[1]?.rate();
    if (!plan || !rate) return plan ?? null;
    return (await declare(`/v1/plan?${new URLSearchParams({ rate })}`, sent)).content;
  }

  function foreseen({ changes }, plan) {
    show(preview, changeList(changes), planTold(plan));
    say("The preview is shown.");
    by("preview-title").focus();
  }

  function refused(problem, sent) {
    fields.tell(problem, sent.map((one) => one.kind));
    if (problem.told.plan) show(preview, planTold(problem.told.plan));
  }

  function done(sent, { changes, warnings }) {
    const made = sent.find((one) => one.kind === "Query");
    const stream = sent.find((one) => one.kind === "Stream");
    const step = (text, view, detail) => h("li", {}, h("button", { type: "button", onclick: () => go(view, detail) }, text));
    show(preview,
      h("div", { class: "notice good" }, h("b", {}, "Done. "), "The query runs within seconds."),
      warnings?.map((one) => h("div", { class: "notice" }, one)),
      changeList(changes),
      h("h3", {}, "Next steps"),
      h("ol", { class: "next-steps" },
        made && step(`See the answers of ${made.tenant}/${made.name}`, "queries", `${made.tenant}/${made.name}`),
        me.is_admin && step(`Create a key for ${made.tenant}`, "keys", `tenant:${made.tenant}`),
        stream && step(`Create a key that writes to ${stream.name}`, "keys", `ingest:${stream.name}`)),
      stream && [h("h3", {}, "Send rows"), sender(stream), h("p", { class: "muted" }, "or from a shell:"), h("pre", {}, sending(stream))]);
    say("The documents have been declared.");
    by("preview-title").focus();
  }

  return {
    start: () => Promise.all(parts.map((part) => part.offer())).catch((problem) => fields.tell(problem, [])),
    stop: () => {},
  };
}

function sending(stream) {
  return `curl -X POST ${location.origin}${path`/v1/streams/${stream.name}/rows`} \\
  -H "Authorization: Bearer $WEIR_API_KEY" -H "Content-Type: application/json" \\
  -d '${JSON.stringify([example(stream)])}'`;
}

// -- the tenant --------------------------------------------------------------------------------------------------

function tenantPart(fields) {
  const name = input({ name: "tenant", placeholder: "acme" });
  const choices = h("div", { class: "options", role: "radiogroup", "aria-label": "Priority class" });
  const target = input({ type: "number", min: 1, step: "any", inputmode: "decimal" });
  const drop = input({ type: "number", min: 0, max: 100, step: "any", inputmode: "decimal" });
  const age = input({ type: "number", min: 0, step: "any", inputmode: "decimal" });
  const share = input({ type: "number", min: 0, max: 100, step: "any", inputmode: "decimal" });
  const chosen = () => choices.querySelector(":checked");
  const less = h("details", {}, h("summary", {}, "Request less than the class offers"),
    h("div", { class: "fields" },
      fields.field("Tenant/overrides/delay_target_ms", "Delay target, ms", target, "at least the class's value"),
      fields.field("Tenant/overrides/max_drop", "Maximum drop, %", drop, "at least the class's value"),
      fields.field("Tenant/overrides/max_age_ms", "Drop rows older than, ms", age, "if empty, rows that may not be dropped wait"),
      fields.field("Tenant/overrides/min_share", "Minimum share, %", share, "at most the class's value")));
  const element = h("div", {},
    fields.field("Tenant/name", "Name of the tenant", name, NAME_HINT),
    fields.group("Tenant/priority_class", "Priority class", chosen, choices), less);

  const option = ({ document: one }, at) => h("label", { class: "option" },
    h("input", { type: "radio", name: "priority_class", value: one.name, checked: at === 0 }),
    h("span", {}, h("b", {}, one.name), h("small", {}, `priority ${one.priority}, target ${ms(one.delay_target_ms)}`),
      h("small", {}, one.lossless ? "never sheds" : `drops at most ${percent(one.max_drop ?? DEFAULT_DROP, 0)}`),
      one.max_age_ms && h("small", {}, `drops rows that have waited ${ms(one.max_age_ms)}`)));

  return {
    element,
    name: () => name.value.trim(),
    async offer() {
      const kept = chosen()?.value;
      const items = await all("/v1/priority-classes");
      show(choices, items.length ? items.map(option) : empty("There are no priority classes; declare a priority class first."));
      const again = [...choices.querySelectorAll("input")].find((one) => one.value === kept);
      if (again) again.checked = true;
    },
    documents() {
      const overrides = given({ delay_target_ms: numberOf(target.value), max_drop: numberOf(drop.value, 100), max_age_ms: numberOf(age.value), min_share: numberOf(share.value, 100) });
      return [{ kind: "Tenant", name: name.value.trim(), priority_class: chosen()?.value, ...(Object.keys(overrides).length ? { overrides } : {}) }];
    },
  };
}

// -- the stream --------------------------------------------------------------------------------------------------

function streamPart(fields) {
  const name = input({ name: "stream", placeholder: "readings" });
  const there = h("select", {});
  const perSecond = input({ type: "number", min: 0, step: "any", inputmode: "decimal" });
  const columns = new Columns();
  const radio = (value, text) => h("label", {}, h("input", { type: "radio", name: "stream-is", value, checked: value === "new", onchange: choose }), text);
  const which = h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, "Which stream"), radio("new", "New stream"), radio("there", "Existing stream"));
  const fresh = h("div", {},
    fields.field("Stream/name", "Name of the stream", name),
    fields.group("Stream/columns", "Columns", () => columns.first, columns.element,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => columns.add().focus() }, "Add a column"))),
    fields.field("rate", "Rows per second, if known", perSecond, "used for the prediction only"));
  const old = h("div", { hidden: true }, fields.field("there", "Stream", there));
  const isNew = () => which.querySelector(":checked").value === "new";
  const element = h("fieldset", { class: "group" }, h("legend", {}, "Stream"), which, fresh, old);

  function choose() {
    fresh.hidden = !isNew();
    old.hidden = isNew();
    element.dispatchEvent(new Event("input", { bubbles: true }));
  }

  return {
    element,
    name: () => (isNew() ? name.value.trim() : there.value),
    async offer() {
      const kept = there.value;
      const items = await all("/v1/streams");
      show(there, items.map(({ document: one }) => h("option", { value: one.name, selected: one.name === kept }, one.name)));
      which.hidden = !items.length;
    },
    rate: () => (isNew() && Number(perSecond.value) > 0 ? `${name.value.trim()}:${Number(perSecond.value)}` : ""),
    documents: () => (isNew() ? [{ kind: "Stream", name: name.value.trim(), ...columns.document }] : []),
  };
}

const described = ({ name, columns }) => (columns ? `${name} (${Object.keys(columns).join(", ")})` : name);

// -- the query ---------------------------------------------------------------------------------------------------

function queryPart(fields, me, stream) {
  const name = input({ name: "query", placeholder: "hot" });
  const sql = h("textarea", { name: "sql", spellcheck: "false", rows: 5 });
  const tenant = h("select", {}, me.tenants.map((one) => h("option", { value: one }, one)));
  const streams = h("p", { class: "muted" });
  const utility = input({ name: "utility", placeholder: "200:1, 400:0.5, 900:0" });
  const weight = input({ name: "weight", type: "number", step: "any", inputmode: "decimal", placeholder: "1" });
  let suggested = "";
  const element = h("fieldset", { class: "group" }, h("legend", {}, "Query"),
    h("div", { class: "fields" },
      !me.is_admin && fields.field("Query/tenant", "Tenant", tenant),
      fields.field("Query/name", "Name of the query", name)),
    fields.field("Query/sql", "SQL", sql), streams,
    h("details", {}, h("summary", {}, "Set the utility of late answers"),
      fields.field("Query/utility", "Utility by latency", utility, "points as MILLISECONDS:UTILITY, from 1 down to 0; default: as in its class"),
      fields.field("Query/weight", "Weight of fresh answers", weight, "relative to the tenant's other queries, from 0.001 to 1000; default: 1")));

  // Until something else is written there, the SQL reads the stream that is named above.
  by("onboard-form").addEventListener("input", () => {
    if (sql.value !== suggested) return;
    suggested = stream() ? `SELECT * FROM ${stream()}` : "";
    sql.value = suggested;
  });

  return {
    element,
    tenant: () => tenant.value,
    async offer() {
      if (me.is_admin) return;
      const items = await all("/v1/streams");
      setText(streams, items.length ? `Streams: ${items.map(({ document: one }) => described(one)).join("; ")}` : "There is no stream yet. Ask an administrator to declare a stream.");
    },
    documents: (of) => [given({ kind: "Query", tenant: of, name: name.value.trim(), sql: sql.value.trim(), utility: pointsOf(utility.value), weight: numberOf(weight.value) })],
  };
}
