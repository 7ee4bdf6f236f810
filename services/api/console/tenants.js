// Tenants view: lists of tenants and priority classes, their settings and limits, and forms for administrators.

import { all, call, path } from "./api.js";
import { changeForm, savedNotice } from "./change.js";
import { confirmed } from "./confirm.js";
import { by, empty, h, problemBox, reveal, say, setText, show } from "./dom.js";
import { choice, controls, LIMITS, SETTINGS, shown, VICTIMS, yesOrNo } from "./entitlements.js";
import { Fields } from "./fields.js";
import { given, input } from "./inputs.js";
import { Polling } from "./polling.js";

// Prefix of priority classes in the page's URL; it cannot be a tenant, because names have no slash.
const CLASS = "class/";
const NEW = `${CLASS}`;

const without = (document, names) => Object.fromEntries(Object.entries(document).filter(([name]) => !names.includes(name)));
/** Returns the object without undefined values, or undefined if nothing is left. */
const filled = (values) => (Object.values(values).some((value) => value !== undefined) ? given(values) : undefined);
const unit = (label) => label.split(", ")[1] ?? "";

export function tenantsView({ me, go }) {
  const [list, find, title, root] = [by("tenants-list"), by("tenants-find"), by("tenant-title"), by("tenant")];
  let [tenants, classes, queries] = [[], [], []];
  let wanted = "";
  let opened = null;
  let isEdited = false;
  let seen = "";
  let notice = null;

  find.addEventListener("input", draw);

  const classNamed = (name) => classes.find(({ document }) => document.name === name)?.document;
  const queriesOf = (name) => queries.filter(({ document }) => document.tenant === name);

  async function look(signal) {
    [tenants, classes, queries] = await Promise.all(["/v1/tenants", "/v1/priority-classes", "/v1/queries"].map((address) => all(address, { signal })));
    const now = JSON.stringify([tenants, classes, queries.map(({ document }) => [document.tenant, document.name])]);
    if (now !== seen) {
      seen = now;
      draw();
      open();
    }
  }

  // -- the lists ---------------------------------------------------------------------------------------------------

  function draw() {
    const part = find.value.trim().toLowerCase();
    const has = ({ document }) => document.name.toLowerCase().includes(part);
    const count = (name) => { const { length } = queriesOf(name); return length === 1 ? "1 query" : `${length} queries`; };
    show(list,
      picks(tenants.filter(has), "", ({ name, priority_class: of }) => `${of}, ${count(name)}`,
        tenants.length ? "No tenant has this text in its name." : "There are no tenants yet."),
      me.is_admin && h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => go("onboard") }, "Onboard a tenant")),
      h("h3", {}, "Priority classes"),
      picks(classes.filter(has), CLASS, (one) => `priority ${one.priority}, target ${one.delay_target_ms} ms`, "No priority class has this text in its name."),
      me.is_admin && h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => go("tenants", NEW) }, "New priority class")));
  }

  const picks = (items, prefix, about, none) => items.length
    ? h("div", { class: "picks" }, items.map(({ document }) => h("button", {
      type: "button", "aria-current": `${prefix}${document.name}` === wanted ? "true" : null,
      onclick: () => {
        go("tenants", `${prefix}${document.name}`);
        reveal(title);
      },
    }, h("b", {}, document.name), h("small", { class: "muted" }, about(document)))))
    : empty(none);

  // -- the selected item -------------------------------------------------------------------------------------------

  function open() {
    const isClass = wanted.startsWith(CLASS);
    const name = isClass ? wanted.slice(CLASS.length) : wanted;
    const found = (isClass ? classes : tenants).find(({ document }) => document.name === name);
    const now = JSON.stringify([wanted, found, isClass ? tenantsOf(name) : [queriesOf(name).length, classNamed(found?.document.priority_class)]]);
    // An open form stays open: saving it fails if the declaration has changed meanwhile.
    if (opened === now || (isEdited && opened !== null)) return;
    opened = now;
    setText(title, found ? name : wanted === NEW ? "New priority class" : "Tenant");
    if (wanted === NEW && me.is_admin) editClass({ document: {}, version: 0 });
    else if (!found) show(root, empty(wanted ? "The selected item no longer exists." : "Choose a tenant or a priority class to see its settings and limits."));
    else if (isClass) showClass(found);
    else showTenant(found);
  }

  function reopen(saved = null) {
    [notice, isEdited, opened] = [saved, false, null];
    looking.now();
    open();
  }

  const tenantsOf = (name) => tenants.filter(({ document }) => document.priority_class === name).map(({ document }) => document.name);
  const line = (term, ...texts) => [h("dt", {}, term), h("dd", {}, ...texts)];
  const links = (names, view, prefix = "") => (names.length
    ? h("span", { class: "links" }, names.map((name) => h("button", { type: "button", class: "link", onclick: () => go(view, `${prefix}${name}`) }, name)))
    : "none");

  /** Lists the effective settings and limits, and marks those that the tenant overrides. */
  function entitled(own, inherited) {
    const text = (setting, limits) => {
      const [mine, its] = limits ? [own?.limits, inherited?.limits] : [own?.overrides, inherited];
      const isOwn = inherited !== null && mine?.[setting.name] !== undefined;
      const value = shown(setting, isOwn ? mine : its);
      return [value ? `${value} ${unit(setting.label)}`.trim() : (setting.unset ?? "system default"), isOwn && h("span", { class: "muted" }, " overridden")];
    };
    const name = ({ label }) => label.split(", ")[0];
    return [
      SETTINGS.map((setting) => line(name(setting), ...text(setting, false))),
      line("Never sheds", (own?.overrides?.lossless ?? inherited?.lossless) ? "yes" : "no"),
      LIMITS.map((setting) => line(name(setting), ...text(setting, true))),
    ].flat(2);
  }

  /** Lists the fields of the document that have no control here, as they were written. */
  const others = (document, known) => Object.entries(without(document, known))
    .filter(([, value]) => value !== null)
    .flatMap(([name, value]) => line(name, h("code", {}, typeof value === "object" ? JSON.stringify(value) : String(value))));

  function showTenant({ document, version }) {
    const parent = classNamed(document.priority_class);
    const known = [...SETTINGS.map(({ name }) => name), "lossless"];
    show(root, notice,
      h("dl", { class: "facts" },
        line("Priority class", parent ? links([document.priority_class], "tenants", CLASS) : document.priority_class),
        entitled(document, parent ?? {}),
        others(document, ["kind", "name", "priority_class", "overrides", "limits"]),
        others(document.overrides ?? {}, known),
        line("Queries", links(queriesOf(document.name).map((one) => one.document.name), "queries", `${document.name}/`))),
      h("div", { class: "buttons" },
        me.is_admin && h("button", { type: "button", class: "primary", onclick: () => editTenant({ document, version }) }, "Edit"),
        h("button", { type: "button", onclick: () => go("decisions", document.name) }, "Decisions"),
        me.is_admin && h("button", { type: "button", class: "danger", onclick: () => remove("tenant", path`/v1/tenants/${document.name}`, document.name) }, "Delete the tenant")),
      !me.is_admin && h("p", { class: "muted" }, "Only administrators can change these settings."));
  }

  function showClass({ document, version }) {
    show(root, notice,
      h("dl", { class: "facts" }, entitled({ limits: undefined, overrides: undefined }, document),
        others(document, ["kind", "name", ...SETTINGS.map(({ name }) => name), "lossless", "limits"]),
        line("Tenants", links(tenantsOf(document.name), "tenants"))),
      me.is_admin && h("div", { class: "buttons" },
        h("button", { type: "button", class: "primary", onclick: () => editClass({ document, version }) }, "Edit"),
        h("button", { type: "button", class: "danger", onclick: () => remove("priority class", path`/v1/priority-classes/${document.name}`, document.name) }, "Delete the class")));
  }

  // -- forms -------------------------------------------------------------------------------------------------------

  function edit(form) {
    [isEdited, notice] = [true, null];
    show(root, form);
    form.querySelector("input, select").focus();
  }

  function editTenant({ document, version }) {
    const fields = new Fields();
    const inherited = () => classNamed(select.value) ?? {};
    const select = h("select", { onchange: () => { settings.inherit(inherited()); limits.inherit(inherited().limits); } },
      classes.map((one) => h("option", { value: one.document.name, selected: one.document.name === document.priority_class }, one.document.name)));
    const { overrides = {} } = document;
    const settings = controls(fields, SETTINGS, (name) => `Tenant/overrides/${name}`, overrides, inherited());
    const limits = controls(fields, LIMITS, (name) => `Tenant/limits/${name}`, document.limits, inherited().limits);
    const [lossless, victim] = [yesOrNo(overrides.lossless, "as the class"), choice(VICTIMS, overrides.victim, "as the class")];
    const made = () => {
      const kept = without(overrides, [...SETTINGS.map(({ name }) => name), "lossless", "victim"]);
      return given({
        ...without(document, ["overrides", "limits"]),
        priority_class: select.value,
        overrides: filled({ ...kept, ...settings.values(), lossless: lossless.value(), victim: victim.value() }),
        limits: filled(limits.values()),
      });
    };
    const content = [
      fields.field("Tenant/priority_class", "Priority class", select),
      h("p", { class: "muted form-note" }, "An empty field takes the class's value. A tenant may request less than its class offers, never more."),
      h("div", { class: "fields" }, settings.elements,
        fields.field("Tenant/overrides/lossless", "Never sheds", lossless.select),
        fields.field("Tenant/overrides/victim", "Shed first", victim.select)),
      h("h3", {}, "Limits"), h("div", { class: "fields" }, limits.elements),
    ];
    edit(changeForm({
      kind: "Tenant", fields, content, version, document: made, title: `Edit ${document.name}`,
      address: () => path`/v1/tenants/${document.name}`, kept: (warning) => saved(document.name, warning), cancel: () => reopen(),
    }));
  }

  function editClass({ document, version }) {
    const fields = new Fields();
    const name = input({ name: "name", placeholder: "platinum" });
    const settings = controls(fields, SETTINGS, (setting) => `PriorityClass/${setting}`, document, {});
    const limits = controls(fields, LIMITS, (setting) => `PriorityClass/limits/${setting}`, document.limits, {});
    const [lossless, victim] = [yesOrNo(document.lossless, "no"), choice(VICTIMS, document.victim, "random")];
    const called = () => document.name ?? name.value.trim();
    const made = () => {
      const kept = without(document, ["name", ...SETTINGS.map((setting) => setting.name), "lossless", "victim", "limits"]);
      return given({ ...kept, name: called(), ...settings.values(), lossless: lossless.value(), victim: victim.value(), limits: filled(limits.values()) });
    };
    const content = [
      version === 0 && fields.field(["PriorityClass/name", "name"], "Name of the class", name, "A letter, then letters, digits, _ . or -"),
      h("div", { class: "fields" }, settings.elements,
        fields.field("PriorityClass/lossless", "Never sheds", lossless.select),
        fields.field("PriorityClass/victim", "Shed first", victim.select)),
      h("h3", {}, "Limits"), h("div", { class: "fields" }, limits.elements),
    ];
    edit(changeForm({
      kind: "PriorityClass", fields, content, version, document: made, title: document.name ? `Edit ${document.name}` : "New priority class",
      address: () => path`/v1/priority-classes/${called()}`,
      kept: (warning) => (version === 0 ? go("tenants", `${CLASS}${called()}`) : saved(called(), warning)),
      cancel: () => (version === 0 ? go("tenants") : reopen()),
    }));
  }

  function saved(name, warning) {
    say(`${name} has been saved.`);
    reopen(savedNotice(name, warning));
  }

  async function remove(what, address, name) {
    if (!(await confirmed(`Delete the ${what} ${name}?`, "It can be deleted only while nothing uses it.", "Delete it"))) return;
    try {
      await call("DELETE", address);
      say(`${name} has been deleted.`);
      go("tenants");
    } catch (problem) {
      root.append(problemBox(problem));
    }
  }

  const looking = new Polling(look, 4000, (problem) => show(list, problemBox(problem)));
  return {
    start: (detail) => {
      [wanted, opened, isEdited, notice] = [detail, null, false, null];
      if (seen) {
        draw();
        open();
      }
      looking.start();
      looking.now();
    },
    stop: () => looking.stop(),
  };
}
