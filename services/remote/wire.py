"""HTTP calls to the service: address and key of the service, retries, and errors.

The environment variables are:
    WEIR_ENDPOINT   https://HOST:PORT of the service; without it, the service that `weir up` runs from WEIR_HOME
    WEIR_API_KEY    the key that authenticates the calls
    WEIR_CA_FILE    CA certificates (PEM) to trust in addition to those of the machine

An error response becomes the error that a local catalog would have raised. A call with the status 429 or 503 is retried;
after a broken connection, a call is retried only if repeating it is safe (`again`). The key is sent to the service only, and appears in
no text, log or representation.
"""

from __future__ import annotations

import random
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx
import orjson

from actors.runtime.backoff import Backoff
from configs.errors import Away, Busy, InUse, InvalidInput, NotAllowed, UnknownName, VersionDiffers, WeirError
from services.common.weir_home import ENDPOINT, HOME, home_of

KEY, CA_FILE = "WEIR_API_KEY", "WEIR_CA_FILE"
URN = "urn:weir:problem:"
TRIES = 5
PAUSE_S = 0.1
# Maximum sum of the pauses between the retries of one call, in seconds, since a user may be waiting at a terminal.
PAUSES_MOST_S = 30.0
TIMEOUT_S = 30.0
CONNECT_S = 5.0
SHOWN_KEY = re.compile(r"[\x21-\x7e]{1,200}")
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
# Hosts that are called without a proxy.
LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(eq=False)
class RowsForgotten(WeirError):
    """Error raised when a cursor points to rows that are no longer kept."""

    next: str = ""
    """Cursor to continue with, after the missing rows."""


@dataclass(eq=False)
class WouldMissTarget(WeirError):
    """Error raised if a declaration is refused because a class would miss its delay target; `plan` is the forecast."""

    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Address:
    """Endpoint of a service, and the API key that authenticates calls to the service."""

    endpoint: str
    key: str = field(repr=False)
    ca_file: str | None = None


def address_of(
    environ: Mapping[str, str], endpoint: str | None = None, key: str | None = None
) -> Address | None:
    """Return the address from the arguments, from the environment or of the service of WEIR_HOME; None if no service is known."""
    endpoint, key = endpoint or environ.get(ENDPOINT), key or environ.get(KEY)
    ca_file = environ.get(CA_FILE) or None
    if endpoint:
        return Address(checked_endpoint(endpoint), checked_key(key), ca_file)
    home = home_of(environ)
    here = home.served_at()
    if here is None:
        return None
    endpoint = checked_endpoint(here, HOME)
    # The home's administrator key is used only for the service that runs from this home.
    if not key and home.admin_key.is_file():
        key = home.admin_key.read_text(encoding="utf-8")
    return Address(endpoint, checked_key(key), ca_file)


def checked_endpoint(endpoint: str, name: str = ENDPOINT) -> str:
    """Return the endpoint without a slash at its end; raise InvalidInput if it is not a valid URL."""
    if not is_endpoint(endpoint):
        # The error does not show the value, because it may be a key that was given as the URL by mistake.
        raise InvalidInput(
            "this is not the URL of a service", name, hint="write http://HOST:PORT or https://…"
        )
    return endpoint.rstrip("/")


def is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_one and "@" not in parts.netloc and not parts.query and not parts.fragment


def checked_key(key: str | None) -> str:
    key = (key or "").strip()
    if not key:
        hint = f"set {KEY} to a key; `weir keys create` makes one"
        raise NotAllowed("the service requires an API key, and none is given", KEY, hint=hint)
    if not SHOWN_KEY.fullmatch(key):
        raise InvalidInput(
            "the text does not have the form of an API key",
            KEY,
            hint="give the whole key as Weir printed it: weir_ and 43 characters",
        )
    return key


class Wire:
    """HTTP connections to one service; thread-safe."""

    def __init__(self, address: Address, timeout_s: float = TIMEOUT_S, tries: int = TRIES) -> None:
        self.endpoint, self.key = address.endpoint, address.key
        self._timeout_s, self._tries = timeout_s, tries
        self._http = httpx.Client(
            base_url=address.endpoint,
            headers={"Authorization": f"Bearer {address.key}", "Accept": "application/json"},
            verify=True if address.ca_file is None else trusting(address.ca_file),
            mounts={f"all://{host}": None for host in LOCAL},
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        again: bool = True,
        wait_s: float = 0.0,
    ) -> httpx.Response:
        """Return the service's response, or raise the error in the response. With `again`, the call is repeated if the connection breaks."""
        query = {name: told(value) for name, value in (params or {}).items() if value is not None}
        timeout = httpx.Timeout(self._timeout_s + wait_s, connect=min(CONNECT_S, self._timeout_s))
        backoff, paused_s = Backoff(PAUSE_S), 0.0
        while True:
            least_s = 0.0
            try:
                answer = self._http.request(
                    method, path, params=query or None, headers=headers, content=content, timeout=timeout
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as broken:
                raise Away(f"{self.endpoint} does not answer: {why(broken)}", hint=IS_IT_THERE) from None
            except httpx.TransportError as broken:
                is_final = not again
                problem: WeirError = Away(
                    f"{self.endpoint} has not answered: {why(broken)}", hint="try again later"
                )
            else:
                if answer.is_success:
                    return answer
                problem = problem_of(answer)
                # A call that was refused for lack of capacity has changed nothing, so it can be repeated.
                is_final = not isinstance(problem, Busy)
                least_s = retry_after_s(answer)
            pause_s = max(least_s, backoff.failed() * random.uniform(0.5, 1.0))
            paused_s += pause_s
            if is_final or backoff.failures >= self._tries or paused_s > PAUSES_MOST_S:
                raise problem
            time.sleep(pause_s)


IS_IT_THERE = f"check that the service runs, and that {ENDPOINT} is its address"


def trusting(ca_file: str) -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    try:
        context.load_verify_locations(cafile=ca_file)
    except (OSError, ssl.SSLError) as broken:
        raise InvalidInput(
            f"the file cannot be read: {broken}", CA_FILE, ca_file, "give a PEM file"
        ) from None
    return context


def told(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def why(broken: Exception) -> str:
    """Return the error's message on one line."""
    text = " ".join(str(broken).split())
    return text.lower() if text else type(broken).__name__


def retry_after_s(answer: httpx.Response) -> float:
    """Return the seconds in the Retry-After header; 0 if the header is missing or contains a date."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if re.fullmatch(r"[0-9]{1,6}", text) else 0.0


KINDS: Mapping[str, type[WeirError]] = {
    "unauthenticated": NotAllowed,
    "forbidden": NotAllowed,
    "not-found": UnknownName,
    "version-differs": VersionDiffers,
    "not-running": Away,
}


def problem_of(answer: httpx.Response) -> WeirError:
    """Return the error for a response of the service: the same error that a local catalog would have raised."""
    try:
        said = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        said = None
    said = said if isinstance(said, dict) else {}
    slug = str(said.get("type", "")).removeprefix(URN)
    title, hint = str(said.get("detail") or said.get("title") or ""), str(said.get("hint", ""))
    if not title:
        title, hint = f"the service answers {answer.status_code} {answer.reason_phrase}", IS_IT_THERE
    match slug:
        case "rows-forgotten":
            return RowsForgotten(title, hint=hint, next=str(said.get("next", "")))
        case "in-use":
            return InUse(title, hint=hint, users=tuple(map(str, said.get("users", ()))))
        case "would-miss-target":
            return WouldMissTarget(title, hint=hint, plan=said)
        case slug if slug in KINDS:
            return KINDS[slug](title, hint=hint)
    if answer.status_code in BUSY:
        return Busy(title, hint=hint or "try again later")
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return NotAllowed(title, hint=hint)
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or not answer.is_client_error:
        return Away(title, hint=hint)
    return InvalidInput(title, hint=hint)


def quoted(name: str) -> str:
    """Return a name in quoted form for a URL path: a slash in the name must not lead to another resource."""
    if name in ("", ".", ".."):
        raise InvalidInput(
            "this is not a valid name", "name", name, "give a name that is not empty, `.` or `..`"
        )
    return quote(name, safe="")
