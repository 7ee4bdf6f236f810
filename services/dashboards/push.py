"""Push of dashboards to a Grafana: all needed changes are determined before the first one is made. A second push changes nothing.

A stored dashboard is up to date if it contains everything that our dashboard contains; fields that Grafana adds are ignored.
Objects that Weir does not own are left alone. An existing folder keeps its title. A dashboard without our tag, a dashboard
provisioned from a file, and a data source of another type are refused before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from configs.errors import InvalidInput
from services.dashboards.grafana import Grafana, Json, checked_url

TAG = "weir"
FOLDER_UID, FOLDER_TITLE = "weir", "Weir"
DATASOURCE_UID, DATASOURCE_NAME = "weir-prometheus", "Weir Prometheus"
OURS = {"text": DATASOURCE_NAME, "value": DATASOURCE_UID}
MESSAGE = "weir dashboards push"
# Fields that Grafana sets itself.
ITS_OWN = ("id", "version", "schemaVersion")
# Fields of a data source that a push writes back with the values that Grafana returned. Secrets that are not sent keep their values.
WRITTEN = (
    "uid", "name", "type", "access", "url", "user", "database", "basicAuth", "basicAuthUser", "withCredentials",
    "isDefault", "jsonData", "version",
)  # fmt: skip

UID = re.compile(r"[a-zA-Z0-9_-]{1,40}")

Action = Literal["create", "change", "keep"]


@dataclass(frozen=True, slots=True)
class PushStep:
    """Planned action for one folder, data source or dashboard in Grafana."""

    kind: Literal["folder", "datasource", "dashboard"]
    uid: str
    title: str
    action: Action
    document: Json


@dataclass(frozen=True, slots=True)
class Wish:
    """Folder, data source and dashboards that Grafana must have when the push ends."""

    dashboards: Sequence[Json]
    folder_uid: str = FOLDER_UID
    folder_title: str = FOLDER_TITLE
    datasource_url: str | None = None

    def __post_init__(self) -> None:
        if not UID.fullmatch(self.folder_uid):
            raise InvalidInput(
                "the text cannot be the uid of a Grafana folder",
                "--folder",
                self.folder_uid,
                "use at most 40 letters, digits, - and _",
            )
        if not self.folder_title.strip():
            raise InvalidInput(
                "the folder title is empty", "--folder-title", self.folder_title, "pass a title"
            )
        if self.datasource_url is not None:
            checked_url(self.datasource_url, "--datasource-url")


def push(grafana: Grafana, wish: Wish, dry_run: bool = False) -> list[PushStep]:
    """Perform and return the actions after which Grafana has everything in `wish`. With `dry_run`, only return the actions."""
    grafana.version()
    steps = list(planned(grafana, wish))
    if not dry_run:
        for step in steps:
            perform(grafana, step, wish.folder_uid)
    return steps


def planned(grafana: Grafana, wish: Wish) -> Iterator[PushStep]:
    """Yield the actions of a push in the order in which the push must perform them."""
    chosen: Json | None = None
    if wish.datasource_url is not None:
        # The action on the data source needs Grafana's highest role. It comes first, so that a token without this role changes nothing.
        yield datasource_step(grafana.datasource(DATASOURCE_UID), wish.datasource_url)
        chosen = OURS
    yield folder_step(grafana, wish)
    for document in wish.dashboards:
        yield dashboard_step(grafana, document, wish.folder_uid, chosen)


def perform(grafana: Grafana, step: PushStep, folder_uid: str) -> None:
    match step.kind, step.action:
        case _, "keep":
            return
        case "folder", _:
            grafana.make_folder(step.uid, step.title)
        case "datasource", "create":
            grafana.make_datasource(step.document)
        case "datasource", "change":
            grafana.change_datasource(step.uid, step.document)
        case "dashboard", _:
            grafana.write_dashboard(step.document, folder_uid, MESSAGE)


def folder_step(grafana: Grafana, wish: Wish) -> PushStep:
    """Return the action for the folder. The title of an existing folder is not changed."""
    title = grafana.folder_title(wish.folder_uid)
    if title is not None:
        return PushStep("folder", wish.folder_uid, title, "keep", {})
    return PushStep("folder", wish.folder_uid, wish.folder_title, "create", {})


def datasource_step(found: Json | None, url: str) -> PushStep:
    if found is None:
        document = {
            "uid": DATASOURCE_UID,
            "name": DATASOURCE_NAME,
            "type": "prometheus",
            "access": "proxy",
            "url": url,
            "isDefault": False,
            # Long queries do not fit into the URL of a GET request.
            "jsonData": {"httpMethod": "POST"},
        }
        return PushStep("datasource", DATASOURCE_UID, DATASOURCE_NAME, "create", document)
    name = str(found.get("name", ""))
    if found.get("type") != "prometheus":
        raise InvalidInput(
            f"the data source {DATASOURCE_UID} has another type than Prometheus",
            "--datasource-url",
            hint="omit the option and choose a data source in the dashboards",
        )
    if str(found.get("url", "")).rstrip("/") == url.rstrip("/"):
        return PushStep("datasource", DATASOURCE_UID, name, "keep", {})
    if found.get("readOnly"):
        raise InvalidInput(
            f"the data source {DATASOURCE_UID} is provisioned from a file",
            "--datasource-url",
            url,
            "change that file",
        )
    document = {key: found[key] for key in WRITTEN if key in found} | {"url": url}
    return PushStep("datasource", DATASOURCE_UID, name, "change", document)


def dashboard_step(grafana: Grafana, document: Json, folder_uid: str, chosen: Json | None) -> PushStep:
    """Return the action for a dashboard. Without `chosen`, the data source of the stored dashboard stays selected."""
    uid, title = str(document["uid"]), str(document["title"])
    stored = grafana.dashboard(uid)
    if stored is None:
        return PushStep("dashboard", uid, title, "create", looking_at(chosen, document))
    document = looking_at(chosen or choice_in(stored.document), document)
    if stored.folder_uid == folder_uid and says_all_of(stored.document, document):
        return PushStep("dashboard", uid, title, "keep", document)
    if stored.is_provisioned:
        raise InvalidInput(
            "the dashboard is provisioned from a file, so Grafana does not accept changes",
            f"dashboard {uid}",
            hint="change that file",
        )
    if TAG not in (stored.document.get("tags") or ()):
        raise InvalidInput(
            f"another dashboard has this uid: {stored.document.get('title')!r}",
            f"dashboard {uid}",
            hint=f"delete the other dashboard, or add the tag {TAG} to it, so that it may be overwritten",
        )
    return PushStep("dashboard", uid, title, "change", document)


def looking_at(chosen: Json | None, document: Json) -> Json:
    """Return the dashboard with the data source `chosen` selected. Without `chosen`, Grafana's default Prometheus stays selected."""
    if chosen is None:
        return document
    changed = deepcopy(dict(document))
    for variable in changed["templating"]["list"]:
        if variable["type"] == "datasource":
            variable["current"] = dict(chosen)
    return changed


def choice_in(stored: Json) -> Json | None:
    """Return the data source that is selected in a stored dashboard, or None."""
    templating = stored.get("templating")
    variables = templating.get("list") if isinstance(templating, Mapping) else None
    for variable in variables or ():
        if isinstance(variable, Mapping) and variable.get("type") == "datasource":
            current = variable.get("current")
            return current if isinstance(current, Mapping) and current else None
    return None


def says_all_of(stored: Any, ours: Any, is_top: bool = True) -> bool:
    """Return True if the JSON stored in Grafana contains everything in `ours`. The stored JSON may have additional fields."""
    if isinstance(ours, Mapping):
        keys = (key for key in ours if not (is_top and key in ITS_OWN))
        # Grafana may omit empty values.
        return isinstance(stored, Mapping) and all(
            says_all_of(stored[key], ours[key], is_top=False) if key in stored else says_nothing(ours[key])
            for key in keys
        )
    if isinstance(ours, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(ours)
            and all(says_all_of(there, here, is_top=False) for there, here in zip(stored, ours, strict=True))
        )
    return bool(stored == ours)


def says_nothing(ours: Any) -> bool:
    """Return True for an empty value, and for a mapping in which all values are empty."""
    if isinstance(ours, Mapping):
        return all(map(says_nothing, ours.values()))
    return not ours
