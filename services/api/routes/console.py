"""Routes of the console, a web page for users with a key, and of the files that the page loads.

- /console/sign-in begins a session for the key in the form, and sets the session's cookie; the key is not kept.
- /console/ is the page; without a session, the page redirects to /console/sign-in.
- /console/assets/HASH/FILE are the files of the page; HASH changes with the files, so browsers may cache the files for ever.
- /console/session returns the principal and scopes of the signed-in caller.

The page calls the API like any other client. Its content security policy allows only scripts, styles and requests of this
service, no inline scripts or styles, and no text inserted as markup.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from services.api.callers import CONSOLE, Caller
from services.api.problems import Forbidden, Malformed, NotFound, TooManyRequests, Unauthenticated
from services.api.routes.caller import caller_view
from services.api.service import Service
from services.api.sessions import COOKIE, LASTS_S
from services.ingest.keys import ADMIN, TENANT

FOLDER = Path(__file__).parents[1] / "console"
PAGE, SIGN_IN_PAGE = "index.html", "sign-in.html"
HOME, SIGN_IN = f"{CONSOLE}/", f"{CONSOLE}/sign-in"
MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Files that the sign-in page loads, so callers without a session may read them.
PUBLIC = ("console.css", "theme.js", "icon.svg")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
GUARDS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NOT_KEPT = {**GUARDS, "Cache-Control": "no-store"}
KEPT = {**GUARDS, "Cache-Control": "private, max-age=31536000, immutable"}
HASH_CHARACTERS = 16
FIELDS_MAX = 8
# Maximum seconds to send the sign-in form, so that callers without a key cannot hold connections open.
FORM_S = 10.0
# Messages on the sign-in page; a query parameter in the page's URL selects the message.
REASONS: Mapping[str, str] = {"ended": "The session has ended. Sign in again.", "out": "You have signed out."}
WRONG = "This key is not live: it is wrong, has expired or was revoked."
WRITES_ONLY = "This key may only write to streams. Sign in with an administrator's key, or a tenant's."


@dataclass(frozen=True)
class Assets:
    """Files of the console in memory, as they were when the service started."""

    files: Mapping[str, bytes]
    """Scripts, styles and icons by path."""
    pages: Mapping[str, str]
    address: str
    """URL path under which all files are served."""

    def page(self, name: str) -> str:
        return self.pages[name].replace("{assets}", self.address)


def read_assets(folder: Path = FOLDER) -> Assets:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}:{len(content)}:".encode() + content)
    pages = {name: (folder / name).read_text("utf-8") for name in (PAGE, SIGN_IN_PAGE)}
    return Assets(files, pages, f"{CONSOLE}/assets/{digest.hexdigest()[:HASH_CHARACTERS]}")


def router(service: Service) -> APIRouter:
    routes, assets = APIRouter(include_in_schema=False), read_assets()
    add_pages(routes, assets)
    add_signing_in(routes, assets, service)
    return routes


def add_pages(routes: APIRouter, assets: Assets) -> None:
    @routes.get("/")
    @routes.get(CONSOLE)
    async def to_console() -> Response:
        return sent_to(HOME)

    @routes.get(HOME)
    async def page(request: Request) -> Response:
        if session_of(request) is None:
            return sent_to(SIGN_IN)
        return HTMLResponse(assets.page(PAGE), headers=NOT_KEPT)

    @routes.get(f"{CONSOLE}/assets/{{digest}}/{{name:path}}")
    async def asset(request: Request, digest: str, name: str) -> Response:
        if name not in PUBLIC:
            must_have_session(request)
        if name not in assets.files or not assets.address.endswith(f"/{digest}"):
            raise NotFound("the console has no file at this path", hint="reload the page")
        media_type = MEDIA_TYPES[Path(name).suffix]
        return Response(assets.files[name], headers=KEPT, media_type=media_type)

    @routes.get(f"{CONSOLE}/session")
    async def session(request: Request) -> Response:
        caller = must_have_session(request)
        return JSONResponse(caller_view(caller).model_dump(), headers=NOT_KEPT)


def add_signing_in(routes: APIRouter, assets: Assets, service: Service) -> None:
    def form(note: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        page = assets.page(SIGN_IN_PAGE).replace("{told}", html.escape(note))
        return HTMLResponse(page, status, {**NOT_KEPT, **(headers or {})})

    @routes.get(SIGN_IN)
    async def signing_in(request: Request) -> Response:
        if session_of(request) is not None:
            return sent_to(HOME)
        return form(" ".join(text for reason, text in REASONS.items() if reason in request.query_params))

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        must_be_from_here(request)
        holder = service.snapshot.holder_of(await key_in(request))
        if holder is None:
            try:
                service.limits.check_failure(request.client.host if request.client else "")
            except TooManyRequests as problem:
                return form(f"{problem.title}: {problem.hint}".capitalize(), 429, problem.headers)
            return form(WRONG, 401)
        if not any(scope == ADMIN or scope.startswith(TENANT) for scope in holder.scopes):
            return form(WRITES_ONLY, 403)
        service.sessions.end(request.cookies.get(COOKIE, ""))
        answer = sent_to(HOME)
        answer.set_cookie(
            COOKIE,
            service.sessions.begin(holder.id),
            max_age=int(LASTS_S),
            secure=service.settings.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    @routes.post(f"{CONSOLE}/sign-out")
    async def sign_out(request: Request) -> Response:
        must_be_from_here(request)
        service.sessions.end(request.cookies.get(COOKIE, ""))
        answer = sent_to(f"{SIGN_IN}?out=1")
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer


def sent_to(address: str) -> RedirectResponse:
    return RedirectResponse(address, 303, NOT_KEPT)


def session_of(request: Request) -> Caller | None:
    """Return the signed-in caller, or None. The cookie or key was already checked by `Gatekeeper`."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return caller


def must_have_session(request: Request) -> Caller:
    caller = session_of(request)
    if caller is None:
        raise Unauthenticated("this browser is not signed in to the console", hint=f"sign in at {SIGN_IN}")
    return caller


def must_be_from_here(request: Request) -> None:
    """Raise Forbidden for a form from another site: such a form could sign the user out, or sign the user in with an attacker's key."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is None and origin is not None:  # Without TLS, browsers send Sec-Fetch-Site only to localhost.
        is_ours = origin.partition("://")[2] == request.headers.get("host")
        site = "same-origin" if is_ours else "cross-site"
    if site not in (None, "same-origin", "none"):
        raise Forbidden(
            "the form was sent from another site", hint="sign in or out on the console's own page"
        )


async def key_in(request: Request) -> bytes:
    """Return the key in the sign-in form; empty if it has no key."""
    try:
        async with asyncio.timeout(FORM_S):
            body = (await request.body()).decode("utf-8", "replace")
    except TimeoutError:
        away = {"Connection": "close"}
        raise Malformed(
            "the form took too long to arrive", hint="send the form again", headers=away
        ) from None
    try:
        fields = parse_qs(body, max_num_fields=FIELDS_MAX)
    except ValueError:
        return b""
    return fields.get("key", [""])[0].strip().encode("utf-8", "replace")
