"""Client for the part of Grafana's HTTP API that dashboards need. All calls of the grafana-api package are made here.

The package neither retries calls nor explains errors, so this module does both. Calls that take a data source's numeric id
are avoided, because some versions from Grafana 11 to 13 refuse them. Every call may be repeated without creating a second object.
To an account that may see no folder yet, Grafana does not say that a folder or a dashboard is missing: it refuses the request.
The token is sent to the given address only, never to the target of a redirect, and appears in no message.
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

# The package grafana-api has no type annotations.
from grafana_api.grafana_api import GrafanaException  # type: ignore[import-untyped]
from grafana_api.grafana_face import GrafanaFace  # type: ignore[import-untyped]

from actors.runtime.backoff import Backoff
from configs.errors import Away, InvalidInput, NotAllowed, WeirError

Json = Mapping[str, Any]

TIMEOUT_S = 10.0
TRIES = 3
PAUSE_S = 0.2
MESSAGE_MOST = 200
# Maximum number of annotations that Grafana returns per request.
ANNOTATIONS_MOST = 5000
TOKEN = re.compile(r"[\x21-\x7e]{1,1000}")
LOCAL = ("127.0.0.1", "localhost", "::1")
THERE_ALREADY = (HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)
# Statuses after which the same request may succeed a moment later.
PASSING = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
URL_HINT = "use Grafana's address as shown in a browser: https://HOST or https://HOST/grafana"
TOKEN_HINT = "create a token of a service account in Grafana, and pass it in GRAFANA_TOKEN or --token-file"
ROLE_HINT = "give its service account the role Editor, or Admin to create a data source"


@dataclass(frozen=True, slots=True)
class StoredDashboard:
    """Dashboard as stored in Grafana."""

    document: Json
    folder_uid: str
    is_provisioned: bool
    """True if Grafana loads the dashboard from a file, so that it cannot be changed over HTTP."""


class Grafana:
    """Client for one Grafana organisation: the one that the token belongs to."""

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
        # Redirects are not followed: a redirect would turn a POST into a GET, and could send the token to another server.
        self._api.s.max_redirects = 0
        # A Grafana on this machine is called directly, even if environment variables define a proxy.
        self._api.s.trust_env = parts.hostname not in LOCAL

    def __enter__(self) -> Grafana:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.s.close()

    def version(self) -> str:
        """Return Grafana's version; raise InvalidInput if the server at the address is not a Grafana."""
        health = self._found("report its health", lambda: self._api.GET("/health"))
        if health is None or "database" not in health:
            raise self._no_grafana()
        return str(health.get("version", ""))

    def folder_title(self, uid: str) -> str | None:
        """Return the title of a folder, or None if Grafana does not have the folder or hides it from this token."""
        folder = self._seen("see the folder", lambda: self._face.folder.get_folder(uid))
        return None if folder is None else str(folder.get("title", ""))

    def make_folder(self, uid: str, title: str) -> None:
        """Make a folder with this uid. If another client has made the folder meanwhile, that folder is accepted."""
        answer = self._made("make the folder", lambda: self._face.folder.create_folder(title, uid))
        if answer is None or self.folder_title(uid) is not None:
            return
        folders = self._listed("see the folders", self._face.folder.get_all_folders)
        if all(folder.get("title") != title for folder in folders):
            raise NotAllowed(f"the token may not see the folder {uid}", hint=ROLE_HINT)
        raise InvalidInput(
            "another folder already has this title",
            "--folder-title",
            title,
            "choose another title, or pass the uid of that folder with --folder",
        )

    def datasource(self, uid: str) -> Json | None:
        return self._found("see the data source", lambda: self._api.GET(f"/datasources/uid/{uid}"))

    def make_datasource(self, datasource: Json) -> None:
        answer = self._made("make a data source", lambda: self._face.datasource.create_datasource(datasource))
        if answer is not None and self.datasource(datasource["uid"]) is None:
            raise InvalidInput(
                "another data source already has this name", "name", datasource["name"], answer
            )

    def change_datasource(self, uid: str, datasource: Json) -> None:
        """Overwrite a data source. The call of the package grafana-api would need a numeric id, which Grafana 13 does not accept."""
        self._json(
            "change the data source", lambda: self._api.PUT(f"/datasources/uid/{uid}", json=datasource)
        )

    def dashboard(self, uid: str) -> StoredDashboard | None:
        """Return a dashboard, or None if Grafana does not have the dashboard or hides it from this token."""
        answer = self._seen("see the dashboard", lambda: self._face.dashboard.get_dashboard(uid))
        if answer is None:
            return None
        document, meta = answer.get("dashboard"), answer.get("meta")
        if not isinstance(document, Mapping) or not isinstance(meta, Mapping):
            raise self._no_grafana()
        return StoredDashboard(document, str(meta.get("folderUid", "")), bool(meta.get("provisioned")))

    def write_dashboard(self, document: Json, folder_uid: str, message: str) -> None:
        body = {"dashboard": document, "folderUid": folder_uid, "overwrite": True, "message": message}
        self._json("write dashboards", lambda: self._face.dashboard.update_dashboard(body))

    def annotations(self, tag: str, from_ms: int, to_ms: int) -> list[Json]:
        parameters = urlencode({"tags": tag, "from": from_ms, "to": to_ms, "limit": ANNOTATIONS_MOST})
        return self._listed("see annotations", lambda: self._api.GET(f"/annotations?{parameters}"))

    def annotate(self, at_ms: int, text: str, tags: Sequence[str]) -> None:
        """Write an annotation with the given tags, which belongs to no single dashboard. Dashboards find annotations by their tags."""
        body = {"time": at_ms, "text": text, "tags": list(tags)}
        self._json("annotate", lambda: self._api.POST("/annotations", json=body))

    def _seen(self, what: str, call: Callable[[], object]) -> Json | None:
        """Return the response to a call, or None if the requested object is missing or hidden."""
        try:
            return self._found(what, call)
        except DeniedByGrafana:
            return None

    def _found(self, what: str, call: Callable[[], object]) -> Json | None:
        """Return the response to a call, or None if Grafana does not have the requested object."""
        try:
            return self._json(what, call)
        except RefusedByGrafana as refused:
            if refused.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _made(self, what: str, call: Callable[[], object]) -> str | None:
        """Make an object; return None on success, or Grafana's message if a similar object exists already."""
        try:
            self._json(what, call)
        except RefusedByGrafana as refused:
            if refused.status in THERE_ALREADY:
                return refused.title
            raise
        return None

    def _listed(self, what: str, call: Callable[[], object]) -> list[Json]:
        answer = self._told(what, call)
        if not isinstance(answer, list):
            raise self._no_grafana()
        return [item for item in answer if isinstance(item, Mapping)]

    def _json(self, what: str, call: Callable[[], object]) -> Json:
        answer = self._told(what, call)
        if not isinstance(answer, Mapping):
            raise self._no_grafana()
        return answer

    def _told(self, what: str, call: Callable[[], object]) -> object:
        """Return the response to a call, with retries after temporary errors. `what` is the attempted action, for error messages."""
        backoff = Backoff(self._pause_s)
        while True:
            try:
                return call()
            # The package grafana-api raises a ValueError or a TypeError if the response is not a JSON object or list.
            except (GrafanaException, requests.RequestException, ValueError, TypeError) as broken:
                problem, is_passing = self._problem(what, broken)
            pause_s = backoff.failed()
            if not is_passing or backoff.failures >= TRIES:
                raise problem from None
            time.sleep(pause_s)

    def _problem(self, what: str, broken: Exception) -> tuple[WeirError, bool]:
        """Return the error to raise for an exception of the package, and True if the call may be retried."""
        match broken:
            case GrafanaException():
                return self._refusal(what, broken)
            case requests.TooManyRedirects():
                return InvalidInput(
                    "the server redirects to another address", "--grafana", self.url, URL_HINT
                ), False
            case requests.exceptions.SSLError():
                hint = "pass the certificate authority of Grafana's certificate with --ca-file"
                return Away(f"{self.url} cannot be trusted: {tls_reason(broken)}", hint=hint), False
            case requests.Timeout():
                return Away(
                    f"{self.url} has not answered within {TIMEOUT_S:g} s", hint="try again later"
                ), True
            case requests.exceptions.InvalidJSONError() | ValueError() | TypeError():
                return self._no_grafana(), False
        return Away(
            f"{self.url} does not answer", hint="check that Grafana runs and that this is its address"
        ), True

    def _refusal(self, what: str, broken: GrafanaException) -> tuple[WeirError, bool]:
        status = int(broken.status_code)
        response = broken.response
        if not isinstance(response, Mapping) and status != HTTPStatus.UNAUTHORIZED and status not in PASSING:
            return self._no_grafana(), False
        said = told_by(response)
        match status:
            case HTTPStatus.UNAUTHORIZED:
                return NotAllowed(f"{self.url} does not accept the token", hint=TOKEN_HINT), False
            case HTTPStatus.FORBIDDEN:
                return DeniedByGrafana(f"the token may not {what}: {said}", hint=ROLE_HINT), False
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in PASSING:
            return Away(
                f"{self.url} could not {what}: {status} {said}", hint="try again later"
            ), status in PASSING
        return RefusedByGrafana(f"{self.url} refused to {what}: {said}", status=status), False

    def _no_grafana(self) -> InvalidInput:
        return InvalidInput("the server at this address is not a Grafana", "--grafana", self.url, URL_HINT)


class DeniedByGrafana(NotAllowed):
    """Error for a request that the token's role does not permit."""


@dataclass(eq=False)
class RefusedByGrafana(InvalidInput):
    """Error for a request that Grafana has refused with the HTTP status `status`."""

    status: int = 0


def told_by(response: object) -> str:
    """Return the message in Grafana's response, as one line of at most MESSAGE_MOST characters."""
    said = str(response.get("message", "")) if isinstance(response, Mapping) else ""
    return " ".join(said.split())[:MESSAGE_MOST] or "it gave no reason"


def tls_reason(broken: Exception) -> str:
    """Return the reason for a TLS error, in a few words."""
    text = str(broken)
    match = re.search(r"certificate verify failed: ([^(]+)", text)
    if match is not None:
        return match[1].strip()
    return "it does not use TLS" if "WRONG_VERSION" in text or "record layer" in text else "TLS failed"


def checked_url(url: str, name: str) -> str:
    """Return the address without a final slash; raise InvalidInput if the address is not a plain HTTP address."""
    # The message must not quote the address: it may contain a password.
    refused = InvalidInput("this is not an HTTP address", name, hint="write http://HOST:PORT or https://HOST")
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise refused from None
    if not is_one:
        raise refused
    if "@" in parts.netloc:
        raise InvalidInput(
            "the address contains a user name or password", name, hint="remove everything between // and @"
        )
    if parts.query or parts.fragment or re.search(r"\s", url):
        raise InvalidInput(
            "the address contains a query, a fragment or a blank",
            name,
            hint="remove everything from ? or # on",
        )
    return url.rstrip("/")


def checked_token(token: str) -> str:
    if not TOKEN.fullmatch(token):
        raise InvalidInput(
            "this is not a Grafana token",
            "GRAFANA_TOKEN",
            hint="copy the token as Grafana has shown it, in one line",
        )
    return token


def checked_ca_file(path: str) -> str:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as broken:
        raise InvalidInput(
            f"the file cannot be read: {broken}", "--ca-file", path, "pass a PEM file"
        ) from None
    return path
