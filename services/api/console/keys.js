// Keys view: creates keys, which are shown once, lists keys and revokes them.

import { all, call, path } from "./api.js";
import { confirmed } from "./confirm.js";
import { badge, by, empty, h, problemBox, say, setText, show } from "./dom.js";
import { Fields } from "./fields.js";
import { moment } from "./format.js";
import { Polling } from "./polling.js";
import { Table } from "./table.js";

const DAY_S = 86_400;
const LIVES = { "90 days": 90 * DAY_S, "1 year": 365 * DAY_S, "1 day": DAY_S, "no end": null };

const hasExpired = (one) => one.expires_at !== null && Date.parse(one.expires_at) <= Date.now();
const isLive = (one) => one.revoked_at === null && !hasExpired(one);

function stateOf(one) {
  if (one.revoked_at !== null) return badge("", "revoked", "■");
  return hasExpired(one) ? badge("", "expired", "■") : badge("good", "live");
}

export function keysView() {
  const [form, root, made, list] = [by("keys-form"), by("keys-fields"), by("keys-made"), by("keys-list")];
  const fields = new Fields();
  const text = (attributes) => h("input", { autocomplete: "off", spellcheck: "false", ...attributes });
  const principal = text({ name: "principal", placeholder: "acme-app" });
  const scopes = text({ name: "scopes", placeholder: "tenant:acme" });
  const life = h("select", {}, Object.keys(LIVES).map((one) => h("option", { value: one }, one)));
  let table = null;

  show(root, fields.box,
    fields.field("Key/principal", "Principal", principal, "Name shown in the audit log; at most two live keys per principal"),
    fields.field(["Key/scopes", "Key/scope"], "Scopes", scopes, "admin, tenant:NAME, ingest:STREAM, metrics or feeds; separate several scopes with spaces"),
    fields.field("Key/expires_s", "Valid for", life),
    h("div", { class: "buttons" }, h("button", { class: "primary" }, "Create the key")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    make();
  });

  async function make() {
    fields.clear();
    const body = {
      principal: principal.value.trim(),
      scopes: scopes.value.split(/\s+/).filter(Boolean),
      ...(LIVES[life.value] === null ? {} : { expires_s: LIVES[life.value] }),
    };
    try {
      shown((await call("POST", "/v1/keys", { body })).content);
      looking.now();
    } catch (problem) {
      fields.tell(problem, ["Key"]);
    }
  }

  function shown({ id, key, principal: whose }) {
    const copy = h("button", { type: "button", onclick: async () => {
      await navigator.clipboard.writeText(key);
      say("The key has been copied.");
      setText(copy, "Copied");
    } }, "Copy");
    show(made, h("div", { class: "notice good" }, h("p", {}, h("b", {}, `The key ${id} of ${whose}. `), "It is shown only this once: copy it now."),
      h("div", { class: "secret" }, h("code", {}, key), navigator.clipboard && copy,
        h("button", { type: "button", onclick: () => show(made) }, "Hide it"))));
  }

  async function look(signal) {
    const items = await all("/v1/keys", { signal });
    if (!items.length) {
      table = null;
      show(list, empty("There are no keys yet."));
      return;
    }
    table ??= new Table(list, [
      { title: "Principal", head: true, fill: (cell, one) => setText(cell, one.principal) },
      { title: "ID", fill: (cell, one) => setText(cell, one.id) },
      { title: "Scopes", fill: (cell, one) => setText(cell, one.scopes.join(" ")) },
      { title: "Last used", fill: (cell, one) => setText(cell, moment(one.used_at)) },
      { title: "Expires", fill: (cell, one) => setText(cell, moment(one.expires_at)) },
      { title: "State", fill: fillState },
    ]);
    const [live, gone] = [items.filter(isLive), items.filter((one) => !isLive(one))];
    table.update([...live.reverse(), ...gone.reverse()].map((one) => [one.id, one]));
  }

  function fillState(cell, one) {
    if (cell.live === isLive(one)) return;
    cell.live = isLive(one);
    show(cell, h("div", { class: "badges" }, stateOf(one),
      cell.live && h("button", { type: "button", class: "small danger", "aria-label": `Revoke the key of ${one.principal}`, onclick: () => revoke(one) }, "Revoke")));
  }

  async function revoke(one) {
    if (!(await confirmed(`Revoke the key of ${one.principal}?`, "Requests with this key will be refused from now on.", "Revoke it"))) return;
    try {
      await call("DELETE", path`/v1/keys/${one.id}`);
      say("The key has been revoked.");
      looking.now();
    } catch (problem) {
      show(fields.box, problemBox(problem));
    }
  }

  const looking = new Polling(look, 5000, (problem) => {
    table = null;
    show(list, problemBox(problem));
  });
  return {
    start: (detail) => {
      if (detail) {
        scopes.value = detail;
        principal.focus();
      }
      looking.start();
    },
    stop: () => {
      looking.stop();
      show(made);
    },
  };
}
