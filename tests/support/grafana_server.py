"""A substitute for Grafana's HTTP API, as far as dashboards need it: folders, dashboards, data sources and annotations.

    with grafana() as server:
        Grafana(server.url, server.token("Admin"))

The server answers as the real Grafana 10 does; `tests/grafana/test_test_server.py` compares both. It is stricter where a mistake of ours would
otherwise stay hidden: unknown fields and requests by numeric id are refused. With `is_later`, it follows the documentation of later versions.
"""

from __future__ import annotations

import copy
import json
import re
import secrets
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Role = Literal["Viewer", "Editor", "Admin"]
RANKS: dict[Role, int] = {"Viewer": 0, "Editor": 1, "Admin": 2}
UID = re.compile(r"[a-zA-Z0-9_-]+")
UID_MOST = 40
FOLDER_FIELDS = {"uid", "title", "parentUid", "description"}
SAVE_FIELDS = {"dashboard", "folderUid", "message", "overwrite"}
SOURCE_FIELDS = {
    "uid", "name", "type", "access", "url", "user", "database", "basicAuth", "basicAuthUser", "withCredentials",
    "isDefault", "jsonData", "secureJsonData", "version",
}  # fmt: skip
DENIED = "You'll need additional permissions to perform this action. Permissions needed:"
HIDDEN = {"folders:read", "dashboards:read"}
"""Permissions without which a missing object and a hidden one cannot be distinguished."""
ANNOTATION_FIELDS = {"dashboardUID", "panelId", "time", "timeEnd", "tags", "text"}


class Refusal(Exception):
    """Error response of the server, as an exception."""

    def __init__(self, code: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.code, self.body = code, {"message": message, **more}


@dataclass
class Server:
    """State of the server, with a record of its requests."""

    is_later: bool = False
    """True for three rules of Grafana 11 to 13: a folder that exists is a conflict (409), titles of folders need not be unique, and
    dashboards are shown with the newest schema and without empty values."""
    url: str = ""
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    """Folders and dashboards that only administrators may see."""
    tokens: dict[str, Role] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    """Requests other than GET."""
    first: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    """Responses (status, body, headers) that are sent first, without looking at the request."""
    before_write: Callable[[], None] | None = None
    """Function called once before the next write, to simulate another user's change."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def token(self, role: Role) -> str:
        made = f"glsa_{secrets.token_hex(16)}"
        self.tokens[made] = role
        return made

    # -- how the server handles requests ---------------------------------------------------------------

    def answer(self, method: str, target: str, authorization: str, body: bytes, content_type: str) -> object:
        parts = urlsplit(target)
        path = parts.path
        if not path.startswith("/api/"):
            raise Refusal(404, "Not found")
        if (method, path) == ("GET", "/api/health"):
            return {"database": "ok", "version": "10.0.0", "commit": "unknown"}
        if not authorization.startswith("Bearer "):
            raise Refusal(401, "Unauthorized")
        role = self.tokens.get(authorization.removeprefix("Bearer "))
        if role is None:
            raise Refusal(401, "invalid API key")
        if method != "GET":
            self.writes.append(f"{method} {path}")
            if self.before_write is not None:
                happens, self.before_write = self.before_write, None
                happens()
        for verb, pattern, least, permission, handle in self.routes():
            found = re.fullmatch(pattern, path)
            if found is None or verb != method:
                continue
            denied = Refusal(403, f"{DENIED} {permission}", title="Access denied")
            if permission == "annotations:create":
                denied = Refusal(403, "Access denied to this dashboard")
            if RANKS[role] < RANKS[least]:
                raise denied
            if method != "GET":
                return handle(*found.groups(), self.json(body, content_type))
            if role != "Admin" and self.hidden.intersection(found.groups()):
                raise denied
            try:
                return handle(*found.groups(), parse_qs(parts.query))
            except Refusal as refusal:
                # To an account that may see no folder at all, Grafana denies access to missing folders and dashboards.
                sees_none = role != "Admin" and self.folders.keys() <= self.hidden
                if refusal.code == 404 and permission in HIDDEN and sees_none:
                    raise denied from None
                raise
        raise Refusal(404, "Not found")

    def routes(self) -> list[tuple[str, str, Role, str, Callable[..., object]]]:
        """Return the method, path, least role, permission and handler of each request."""
        uid, writing = r"([^/]+)", "any of dashboards:create, dashboards:write"
        return [
            ("GET", "/api/folders", "Viewer", "", self.get_folders),
            ("GET", f"/api/folders/{uid}", "Viewer", "folders:read", self.get_folder),
            ("POST", "/api/folders", "Editor", "folders:create", self.post_folder),
            ("GET", f"/api/datasources/uid/{uid}", "Viewer", "datasources:read", self.get_source),
            ("POST", "/api/datasources", "Admin", "datasources:create", self.post_source),
            ("PUT", f"/api/datasources/uid/{uid}", "Admin", "datasources:write", self.put_source),
            ("GET", f"/api/dashboards/uid/{uid}", "Viewer", "dashboards:read", self.get_dashboard),
            ("POST", "/api/dashboards/db", "Editor", writing, self.post_dashboard),
            ("GET", "/api/annotations", "Viewer", "annotations:read", self.get_annotations),
            ("POST", "/api/annotations", "Editor", "annotations:create", self.post_annotation),
        ]

    def json(self, body: bytes, content_type: str) -> dict[str, Any]:
        if content_type.partition(";")[0] != "application/json":
            raise Refusal(415, "unsupported media type")
        try:
            found = json.loads(body)
        except ValueError:
            raise Refusal(400, "bad request data") from None
        if not isinstance(found, dict):
            raise Refusal(400, "bad request data")
        return found

    # -- requests about folders ------------------------------------------------------------------------

    def get_folders(self, _: object) -> object:
        return [
            {name: folder[name] for name in ("id", "uid", "title")}
            for uid, folder in self.folders.items()
            if uid not in self.hidden
        ]

    def get_folder(self, uid: str, _: object) -> object:
        if uid not in self.folders:
            raise Refusal(404, "folder not found", status="not-found")
        return self.folders[uid]

    def post_folder(self, given: dict[str, Any]) -> object:
        known(given, FOLDER_FIELDS)
        title, uid = given.get("title", ""), given.get("uid") or secrets.token_hex(7)
        if not title:
            raise Refusal(400, "folder title cannot be empty")
        check_uid(uid)
        if uid in self.folders:
            code = 409 if self.is_later else 412
            raise Refusal(code, "the folder has been changed by someone else", status="version-mismatch")
        if not self.is_later and any(one["title"] == title for one in self.folders.values()):
            raise Refusal(
                409, "a folder or dashboard in the general folder with the same name already exists"
            )
        self.folders[uid] = {"id": len(self.folders) + 1, "uid": uid, "title": title, "version": 1}
        return self.folders[uid]

    # -- requests about data sources -------------------------------------------------------------------

    def get_source(self, uid: str, _: object) -> object:
        if uid not in self.sources:
            raise Refusal(404, "Data source not found")
        shown = {key: value for key, value in self.sources[uid].items() if key != "secureJsonData"}
        return shown | {"secureJsonFields": dict.fromkeys(self.sources[uid].get("secureJsonData", {}), True)}

    def post_source(self, given: dict[str, Any]) -> object:
        checked_source(given)
        if any(one["name"] == given["name"] for one in self.sources.values()):
            raise Refusal(409, "data source with the same name already exists")
        uid = given.get("uid") or secrets.token_hex(7)
        if uid in self.sources:
            raise Refusal(409, "data source with the same uid already exists")
        self.sources[uid] = given | {"uid": uid, "id": len(self.sources) + 1, "version": 1, "readOnly": False}
        return {"datasource": self.sources[uid], "id": self.sources[uid]["id"], "message": "Datasource added"}

    def put_source(self, uid: str, given: dict[str, Any]) -> object:
        checked_source(given)
        there = self.sources.get(uid)
        if there is None:
            raise Refusal(404, "Data source not found")
        if there.get("readOnly"):
            raise Refusal(403, "Cannot update read-only data source")
        # A higher version is accepted, so that files can overwrite data sources.
        if there["version"] > given.get("version", there["version"]):
            raise Refusal(
                409, "Datasource has already been updated by someone else. Please reload and try again"
            )
        # Fields that the request leaves out are removed from the data source, except secrets.
        kept = {key: there[key] for key in ("id", "uid", "readOnly", "secureJsonData") if key in there}
        self.sources[uid] = given | kept | {"version": given.get("version", there["version"]) + 1}
        return {"datasource": self.sources[uid], "id": there["id"], "message": "Datasource updated"}

    # -- requests about dashboards ---------------------------------------------------------------------

    def get_dashboard(self, uid: str, _: object) -> object:
        if uid not in self.dashboards:
            raise Refusal(404, "Dashboard not found")
        there = self.dashboards[uid]
        shown = normalised(there["dashboard"]) if self.is_later else there["dashboard"]
        meta = {
            "folderUid": there["folderUid"],
            "provisioned": there["provisioned"],
            "version": shown["version"],
        }
        return {"dashboard": shown, "meta": meta}

    def post_dashboard(self, given: dict[str, Any]) -> object:
        known(given, SAVE_FIELDS)
        document, folder = given.get("dashboard"), given.get("folderUid", "")
        if not isinstance(document, dict):
            raise Refusal(400, "bad request data")
        if not document.get("title"):
            raise Refusal(400, "Dashboard title cannot be empty", status="empty-name")
        uid = document.get("uid") or secrets.token_hex(7)
        check_uid(uid)
        if uid in self.folders:
            raise Refusal(400, "Dashboard cannot be changed to a folder")
        if folder and folder not in self.folders:
            raise Refusal(400, "Folder not found")
        there = self.dashboards.get(uid)
        if document.get("id") and there is None:
            raise Refusal(404, "Dashboard not found", status="not-found")
        version = self.next_version(there, document, bool(given.get("overwrite")))
        stored = copy.deepcopy(document) | {"uid": uid, "id": len(self.dashboards) + 1, "version": version}
        self.dashboards[uid] = {"dashboard": stored, "folderUid": folder, "provisioned": False}
        return {"id": stored["id"], "uid": uid, "status": "success", "version": version}

    def next_version(self, there: dict[str, Any] | None, document: dict[str, Any], overwrites: bool) -> int:
        if there is None:
            return 1
        if there["provisioned"]:
            raise Refusal(400, "Cannot save provisioned dashboard")
        found: int = there["dashboard"]["version"]
        if not overwrites and document.get("version") != found:
            raise Refusal(412, "The dashboard has been changed by someone else", status="version-mismatch")
        return found + 1

    # -- requests about annotations --------------------------------------------------------------------

    def get_annotations(self, asked: dict[str, list[str]]) -> object:
        known(asked, {"tags", "from", "to", "limit", "dashboardUID", "type"})
        tags, limit = set(asked.get("tags", ())), int(asked.get("limit", ["100"])[0])
        first, last = int(asked.get("from", ["0"])[0]), int(asked.get("to", [str(2**62)])[0])
        found = [one for one in self.annotations if tags <= set(one["tags"]) and first <= one["time"] <= last]
        return sorted(found, key=lambda one: -one["time"])[:limit]

    def post_annotation(self, given: dict[str, Any]) -> object:
        known(given, ANNOTATION_FIELDS)
        if not given.get("text"):
            raise Refusal(400, "Failed to save annotation")
        self.annotations.append(given | {"id": len(self.annotations) + 1})
        return {"message": "Annotation added", "id": len(self.annotations)}


def known(given: dict[str, Any], names: set[str]) -> None:
    if unknown := sorted(given.keys() - names):
        raise Refusal(400, f"bad request data: unknown {', '.join(unknown)}")


def check_uid(uid: str) -> None:
    if len(uid) > UID_MOST:
        raise Refusal(400, f"uid too long, max {UID_MOST} characters")
    if not UID.fullmatch(uid):
        raise Refusal(400, "uid contains illegal characters")


def checked_source(given: dict[str, Any]) -> None:
    known(given, SOURCE_FIELDS)
    if {"name", "type", "access"} - given.keys():
        raise Refusal(400, "bad request data")


def normalised(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as later versions of Grafana show it: with additional fields, and without fields that have empty values."""
    shown = copy.deepcopy(document) | {"schemaVersion": 43, "weekStart": ""}
    for panel in shown.get("panels", ()):
        panel["pluginVersion"] = "13.0.1"
        for name in [name for name, value in panel.items() if value in (False, [], {}, "", None)]:
            del panel[name]
    return shown


@contextmanager
def grafana(certificate: tuple[Path, Path] | None = None, **settings: Any) -> Iterator[Server]:
    """Start the server on a free port of this machine, with TLS if it has a certificate."""
    server = Server(**settings)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Each response is sent as one packet, because a second packet would wait for the acknowledgement of the first packet.
        wbufsize, disable_nagle_algorithm = -1, True

        def handle_it(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with server.lock:
                if server.first:
                    status, content, headers = server.first.pop(0)
                    self.send(status, content, headers)
                    return
                try:
                    answered = server.answer(
                        self.command,
                        self.path,
                        self.headers.get("Authorization", ""),
                        body,
                        self.headers.get("Content-Type", ""),
                    )
                    status, content = 200, json.dumps(answered).encode()
                except Refusal as refusal:
                    status, content = refusal.code, json.dumps(refusal.body).encode()
            self.send(status, content, {"Content-Type": "application/json"})

        def send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing, because the tests check the recorded requests instead of a log."""

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_it)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*map(str, certificate))
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
            scheme = "https"
        server.url = f"{scheme}://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
