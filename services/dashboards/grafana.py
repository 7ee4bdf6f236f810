"""Grafana over HTTP, as far as dashboards need it: the grafana-api package behind one door.

The package has no retries and no words, and some of its calls do not work on all of Grafana 11 to 13: whatever takes a
data source's numeric id is left out here. Each call may be repeated: what is made twice is there once. The token is shown to
this address alone, follows no redirect, and is in no text.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

import requests

# The package ships no types.
from grafana_api.grafana_api import GrafanaException  # type: ignore[import-untyped]
from grafana_api.grafana_face import GrafanaFace  # type: ignore[import-untyped]

from actors.runtime.backoff import Backoff
from configs.errors import Away, InvalidInput, NotAllowed, WeirError

Json = Mapping[str, Any]

TIMEOUT_S = 10.0
TRIES = 3
PAUSE_S = 0.2
MESSAGE_MOST = 200
# As many as Grafana gives at a time.
ANNOTATIONS_MOST = 5000
TOKEN = re.compile(r"[\x21-\x7e]{1,1000}")
LOCAL = ("127.0.0.1", "localhost", "::1")
THERE_ALREADY = (HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)
# What may be different a moment later.
PASSING = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
URL_HINT = "give the address that a browser shows: https://HOST, or https://HOST/grafana"
TOKEN_HINT = "make a token of a service account in Grafana, and put it into GRAFANA_TOKEN or a file"
ROLE_HINT = "its service account needs the role Editor, and Admin to make a data source"


@dataclass(frozen=True, slots=True)
class StoredDashboard:
    """As Grafana has it."""

    document: Json
    folder_uid: str
    is_provisioned: bool
    """From a file of Grafana's own: it takes no other."""


class Grafana:
    """One organisation of one Grafana: the one that the token is of."""

    def __init__(self, url: str, token: str, ca_file: str | None = None, pause_s: float = PAUSE_S) -> None:
        self.url, self._pause_s = checked_url(url, "--grafana"), pause_s
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self._face = GrafanaFace(
            checked_token(token),
            host=host,
            port=parts.port,
            url_path_prefix=f"{parts.path.strip('/')}/".lstrip("/"),
            protocol=parts.scheme,
            verify=True if ca_file is None else checked_ca_file(ca_file),
            timeout=TIMEOUT_S,
        )
        self._api = self._face.api
        # A redirect turns a POST into a GET, and may lead elsewhere.
        self._api.s.max_redirects = 0
        # No proxy stands between a machine and itself.
        self._api.s.trust_env = parts.hostname not in LOCAL

    def __enter__(self) -> Grafana:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.s.close()

    def version(self) -> str:
        """Of the Grafana that answers there; an error if it is none."""
        health = self._found("tell its health", lambda: self._api.GET("/health"))
        if health is None or "database" not in health:
            raise self._no_grafana()
        return str(health.get("version", ""))

    # -- folders ---------------------------------------------------------------------------------------

    def folder_title(self, uid: str) -> str | None:
        folder = self._found("see the folder", lambda: self._face.folder.get_folder(uid))
        return None if folder is None else str(folder.get("title", ""))

    def make_folder(self, uid: str, title: str) -> None:
        """One that somebody else has made meanwhile is as good."""
        answer = self._made("make the folder", lambda: self._face.folder.create_folder(title, uid))
        if answer is not None and self.folder_title(uid) is None:
            raise InvalidInput(
                "somebody else's folder has this title",
                "--folder-title",
                title,
                "choose another, or name that folder's uid by --folder",
            )

    # -- data sources ----------------------------------------------------------------------------------

    def datasource(self, uid: str) -> Json | None:
        return self._found("see the data source", lambda: self._api.GET(f"/datasources/uid/{uid}"))

    def make_datasource(self, datasource: Json) -> None:
        answer = self._made("make a data source", lambda: self._face.datasource.create_datasource(datasource))
        if answer is not None and self.datasource(datasource["uid"]) is None:
            raise InvalidInput(
                "somebody else's data source has this name", "name", datasource["name"], answer
            )

    def change_datasource(self, uid: str, datasource: Json) -> None:
        """The package knows numeric ids only, which Grafana 13 does not."""
        self._json(
            "change the data source", lambda: self._api.PUT(f"/datasources/uid/{uid}", json=datasource)
        )

    # -- dashboards ------------------------------------------------------------------------------------

    def dashboard(self, uid: str) -> StoredDashboard | None:
        answer = self._found("see the dashboard", lambda: self._face.dashboard.get_dashboard(uid))
        if answer is None:
            return None
        document, meta = answer.get("dashboard"), answer.get("meta")
        if not isinstance(document, Mapping) or not isinstance(meta, Mapping):
            raise self._no_grafana()
        return StoredDashboard(document, str(meta.get("folderUid", "")), bool(meta.get("provisioned")))

    def write_dashboard(self, document: Json, folder_uid: str, message: str) -> None:
        body = {"dashboard": document, "folderUid": folder_uid, "overwrite": True, "message": message}
        self._json("write dashboards", lambda: self._face.dashboard.update_dashboard(body))

    # -- annotations -----------------------------------------------------------------------------------

    def annotations(self, tag: str, from_ms: int, to_ms: int) -> list[Json]:
        parameters = urlencode({"tags": tag, "from": from_ms, "to": to_ms, "limit": ANNOTATIONS_MOST})
        answer = self._told("see annotations", lambda: self._api.GET(f"/annotations?{parameters}"))
        if not isinstance(answer, list):
            raise self._no_grafana()
        return [item for item in answer if isinstance(item, Mapping)]

    def annotate(self, at_ms: int, text: str, tags: Sequence[str]) -> None:
        """Of no dashboard: all see it that ask for its tags."""
        body = {"time": at_ms, "text": text, "tags": list(tags)}
        self._json("annotate", lambda: self._api.POST("/annotations", json=body))

    # -- calls -----------------------------------------------------------------------------------------

    def _found(self, what: str, call: Callable[[], object]) -> Json | None:
        """None if there is no such thing."""
        try:
            return self._json(what, call)
        except RefusedByGrafana as refused:
            if refused.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _made(self, what: str, call: Callable[[], object]) -> str | None:
        """None if it has been made; what Grafana says if something like it is there already."""
        try:
            self._json(what, call)
        except RefusedByGrafana as refused:
            if refused.status in THERE_ALREADY:
                return refused.title
            raise
        return None

    def _json(self, what: str, call: Callable[[], object]) -> Json:
        answer = self._told(what, call)
        if not isinstance(answer, Mapping):
            raise self._no_grafana()
        return answer

    def _told(self, what: str, call: Callable[[], object]) -> object:
        """What it answers, tried again if it may be different a moment later; or why it does not, in words."""
        backoff = Backoff(self._pause_s)
        while True:
            try:
                return call()
            # Of an answer that is no JSON, or a number, the package makes a ValueError or a TypeError.
            except (GrafanaException, requests.RequestException, ValueError, TypeError) as broken:
                problem, is_passing = self._problem(what, broken)
            pause_s = backoff.failed()
            if not is_passing or backoff.failures >= TRIES:
                raise problem from None
            time.sleep(pause_s)

    def _problem(self, what: str, broken: Exception) -> tuple[WeirError, bool]:
        """In our words, and whether it may pass."""
        match broken:
            case GrafanaException():
                return self._refusal(what, broken)
            case requests.TooManyRedirects():
                return InvalidInput("sends elsewhere", "--grafana", self.url, URL_HINT), False
            case requests.exceptions.SSLError():
                hint = "--ca-file takes the certificates that Grafana's is signed with"
                return Away(f"{self.url} cannot be trusted: {tls_reason(broken)}", hint=hint), False
            case requests.Timeout():
                return Away(
                    f"{self.url} has not answered within {TIMEOUT_S:g} s", hint="try again later"
                ), True
            case requests.exceptions.InvalidJSONError() | ValueError() | TypeError():
                return self._no_grafana(), False
        return Away(f"{self.url} does not answer", hint="is Grafana there, and is that its address?"), True

    def _refusal(self, what: str, broken: GrafanaException) -> tuple[WeirError, bool]:
        status = int(broken.status_code)
        response = broken.response
        if not isinstance(response, Mapping) and status != HTTPStatus.UNAUTHORIZED and status not in PASSING:
            return self._no_grafana(), False
        said = told_by(response)
        match status:
            case HTTPStatus.UNAUTHORIZED:
                return NotAllowed(f"{self.url} does not know the token", hint=TOKEN_HINT), False
            case HTTPStatus.FORBIDDEN:
                return NotAllowed(f"the token may not {what}: {said}", hint=ROLE_HINT), False
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in PASSING:
            return Away(
                f"{self.url} could not {what}: {status} {said}", hint="try again later"
            ), status in PASSING
        return RefusedByGrafana(f"{self.url} does not {what}: {said}", status=status), False

    def _no_grafana(self) -> InvalidInput:
        return InvalidInput("no Grafana answers there", "--grafana", self.url, URL_HINT)


@dataclass(eq=False)
class RefusedByGrafana(InvalidInput):
    """By Grafana, for a reason of its own."""

    status: int = 0


def told_by(response: object) -> str:
    """What it says itself, in one line that is not too long."""
    said = str(response.get("message", "")) if isinstance(response, Mapping) else ""
    return " ".join(said.split())[:MESSAGE_MOST] or "it does not say why"


def tls_reason(broken: Exception) -> str:
    text = str(broken)
    match = re.search(r"certificate verify failed: ([^(]+)", text)
    if match is not None:
        return match[1].strip()
    return "it does not speak TLS" if "WRONG_VERSION" in text or "record layer" in text else "TLS failed"


# -- what is given ---------------------------------------------------------------------------------------------


def checked_url(url: str, name: str) -> str:
    """Without a slash at its end."""
    # What is wrong is not shown: there may be a password in it.
    refused = InvalidInput("not an address", name, hint="write http://HOST:PORT or https://…")
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise refused from None
    if not is_one:
        raise refused
    if "@" in parts.netloc:
        raise InvalidInput(
            "a password does not belong into an address", name, hint="leave out what stands before @"
        )
    if parts.query or parts.fragment or re.search(r"\s", url):
        raise InvalidInput("more than an address", name, hint="leave out what stands after ? or #")
    return url.rstrip("/")


def checked_token(token: str) -> str:
    if not TOKEN.fullmatch(token):
        raise InvalidInput(
            "not a token", "GRAFANA_TOKEN", hint="give it as Grafana has shown it, in one line"
        )
    return token


def checked_ca_file(path: str) -> str:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as broken:
        raise InvalidInput(f"cannot be read: {broken}", "--ca-file", path, "give a PEM file") from None
    return path
