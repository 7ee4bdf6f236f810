// Main page: shows the signed-in user and the views that the user may see. Only the visible view polls the service.

import { get, Problem } from "./api.js";
import { auditView } from "./audit.js";
import { by, h, problemBox, setText, show } from "./dom.js";
import { decisionsView } from "./decisions.js";
import { feedsView } from "./feeds.js";
import { keysView } from "./keys.js";
import { ledgerView } from "./ledger.js";
import { mirrorsView } from "./mirrors.js";
import { onboardView } from "./onboard.js";
import { overviewView } from "./overview.js";
import { queriesView } from "./queries.js";
import { installShortcuts } from "./shortcuts.js";
import { Tabs } from "./tabs.js";
import { tenantsView } from "./tenants.js";

function views(me) {
  const found = [
    { id: "overview", title: "Overview", make: overviewView },
    { id: "queries", title: "Queries", make: queriesView },
    { id: "tenants", title: "Tenants", make: tenantsView },
    { id: "ledger", title: "Ledger", make: ledgerView },
    { id: "decisions", title: "Decisions", make: decisionsView },
    { id: "feeds", title: "Feeds", make: feedsView },
    { id: "mirrors", title: "Mirrors", make: mirrorsView },
    { id: "onboard", title: me.is_admin ? "Onboard" : "New query", make: onboardView },
  ];
  if (!me.is_admin) return found;
  return [...found, { id: "keys", title: "Keys", make: keysView }, { id: "audit", title: "Audit", make: auditView }];
}

async function begin() {
  const me = await get("/console/session");
  setText(by("principal"), me.is_admin ? me.principal : `${me.principal} (${me.tenants.join(", ")})`);
  const made = new Map();
  const tabs = new Tabs(by("tabs"), views(me), (before, now, detail) => {
    made.get(before?.id)?.stop();
    if (!made.has(now.id)) made.set(now.id, now.make({ me, go: (id, detail) => tabs.go(id, detail) }));
    made.get(now.id).start(detail);
    document.title = `${now.title} – Weir`;
  });
  tabs.begin();
  installShortcuts();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    by("panels").focus();
  });
}

begin().catch((failure) => {
  const problem = failure instanceof Problem ? failure : new Problem({ detail: String(failure) });
  const again = h("button", { type: "button", onclick: () => location.reload() }, "Reload the page");
  show(by("panels"), problemBox(problem), h("div", { class: "buttons" }, again));
});
