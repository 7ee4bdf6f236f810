"""Session and files of the console: permissions to sign in and to read files, security policy, and rules for the files."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from services.api.routes.console import FOLDER, MEDIA_TYPES, PUBLIC, WRITES_ONLY, WRONG, read_assets
from services.api.sessions import SESSIONS_OF_KEY_MAX, Sessions
from services.common.weir_home import Home
from tests.support.api import Api, api_over
from tests.support.checkout import ROOT

VENDOR = FOLDER / "vendor" / "uplot-1.6.32"
ASSETS = read_assets()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with api_over(Home(tmp_path)) as found:
        yield found


def sign_in(api: Api, key: str, **headers: str) -> tuple[int, str, str]:
    """Sign in; return status, location and cookie. The client keeps the cookie, as a browser does."""
    answer = api("POST", "/console/sign-in", who=None, data={"key": key}, headers=headers)
    return answer.status_code, answer.headers.get("Location", ""), answer.headers.get("Set-Cookie", "")


# -- the session of a browser ----------------------------------------------------------------------------------


def test_only_the_sign_in_page_is_served_without_a_session(api: Api) -> None:
    paths = (
        "/",
        "/console",
        "/console/",
        "/console/sign-in",
        "/console/session",
        f"{ASSETS.address}/main.js",
        *(f"{ASSETS.address}/{name}" for name in PUBLIC),
        "/console/nothing",
    )
    answers = [api("GET", path, who=None) for path in paths]
    found = [(answer.status_code, answer.headers.get("Location", "")) for answer in answers]
    public = [(200, "") for _ in PUBLIC]
    to_console, to_sign_in = (303, "/console/"), (303, "/console/sign-in")
    refused, missing = (401, ""), (404, "")
    assert found == [to_console, to_console, to_sign_in, (200, ""), refused, refused, *public, missing]


def test_signing_in_gives_a_cookie_that_does_not_contain_the_key(api: Api) -> None:
    status, location, cookie = sign_in(api, api.keys["acme"])
    assert (status, location) == (303, "/console/")
    name_and_value, *attributes = cookie.split("; ")
    assert sorted(attributes) == ["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=strict"]
    assert api.keys["acme"] not in cookie
    assert name_and_value.startswith("weir_session=")
    caller = api("GET", "/console/session", who=None).json()
    assert caller == {"principal": "acme", "scopes": ["tenant:acme"], "is_admin": False, "tenants": ["acme"]}
    assert api("GET", "/console/sign-in", who=None).headers["Location"] == "/console/"


def test_cookies_of_other_services_do_not_block_a_session(api: Api) -> None:
    """A browser sends the cookies of all ports of a machine to each port, and some of these cookies are malformed."""
    token = sign_in(api, api.keys["acme"])[2].partition(";")[0]
    for others in ('a={"b": [1, 2]}; ', "a=b c; ", 'a="'):
        answer = api("GET", "/console/session", who=None, headers={"Cookie": f"{others}; {token}"})
        assert (others, answer.status_code) == (others, 200)


def test_repeated_sign_in_ends_only_sessions_of_the_same_key() -> None:
    sessions = Sessions()
    ours = sessions.begin("admin")
    theirs = [sessions.begin("acme") for _ in range(2 * SESSIONS_OF_KEY_MAX)]
    live = [sessions.key_id(token) is not None for token in theirs]
    assert sessions.key_id(ours) == "admin"
    assert live == [False] * SESSIONS_OF_KEY_MAX + [True] * SESSIONS_OF_KEY_MAX


def test_cookie_is_marked_secure_with_tls(tmp_path: Path) -> None:
    with api_over(Home(tmp_path), tls_certificate=tmp_path / "a.pem", tls_key=tmp_path / "b.pem") as api:
        assert "Secure" in sign_in(api, api.keys["admin"])[2].split("; ")


def test_session_has_the_permissions_of_its_key(api: Api) -> None:
    sign_in(api, api.keys["admin"])
    tenant = {"priority_class": "gold"}
    assert api("GET", "/v1/tenants/acme", who=None).json()["name"] == "acme"
    without = api("PUT", "/v1/tenants/new", tenant, who=None)
    named = api("PUT", "/v1/tenants/new", tenant, who=None, headers={"X-Weir-Console": "1"})
    assert (without.status_code, named.status_code) == (403, 201)


@pytest.mark.parametrize("key", ["weir_wrong", "", "weir_ü€\x00", "x" * 10_000])
def test_wrong_key_is_refused_without_a_session(api: Api, key: str) -> None:
    answer = api("POST", "/console/sign-in", who=None, data={"key": key})
    assert (answer.status_code, "Set-Cookie" in answer.headers, WRONG in answer.text) == (401, False, True)
    assert api("GET", "/console/session", who=None).status_code == 401


@pytest.mark.parametrize("body", [b"", b"key", b"&" * 1000, b"\xff\xfe=\x00", b'{"key": 1}'])
def test_malformed_sign_in_form_is_refused_like_a_wrong_key(api: Api, body: bytes) -> None:
    answer = api("POST", "/console/sign-in", who=None, content=body)
    assert (answer.status_code, WRONG in answer.text) == (401, True)


def test_key_that_only_pushes_rows_cannot_sign_in(api: Api) -> None:
    answer = api("POST", "/console/sign-in", who=None, data={"key": api.keys["feeder"]})
    assert answer.status_code == 403
    assert WRITES_ONLY.partition("'")[0] in answer.text


def test_after_too_many_wrong_keys_a_client_must_wait_before_signing_in(tmp_path: Path) -> None:
    with api_over(Home(tmp_path), failures_per_minute=1) as api:
        answers = [api("POST", "/console/sign-in", who=None, data={"key": "weir_no"}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [401, 429]
        assert int(answers[1].headers["Retry-After"]) > 0
        assert sign_in(api, api.keys["admin"])[0] == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://weir"}, 303),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://behind.a.proxy"}, 303),
    ],
)
def test_request_from_another_site_does_not_sign_in_or_out(
    api: Api, headers: dict[str, str], status: int
) -> None:
    sign_in(api, api.keys["acme"])
    answers = (
        sign_in(api, api.keys["admin"], **headers),
        api("POST", "/console/sign-out", who=None, headers=headers),
    )
    assert (answers[0][0], answers[1].status_code) == (status, status)
    seen = api("GET", "/console/session", who=None)
    assert seen.status_code == (401 if status == 303 else 200)


def test_sign_in_is_refused_for_requests_from_other_sites(api: Api) -> None:
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 303), ("none", 303)):
        assert sign_in(api, api.keys["admin"], **{"Sec-Fetch-Site": site})[0] == status


def test_signing_out_ends_the_session_for_good(api: Api) -> None:
    cookie = sign_in(api, api.keys["admin"])[2].partition(";")[0]
    answer = api("POST", "/console/sign-out", who=None)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/sign-in?out=1")
    assert api("GET", "/v1/tenants", who=None, headers={"Cookie": cookie}).status_code == 401


def test_session_ends_when_its_key_is_revoked(api: Api) -> None:
    sign_in(api, api.keys["acme"])
    (id_,) = [info.id for info in api.service.catalog.keys.all() if info.principal == "acme"]
    assert api("DELETE", f"/v1/keys/{id_}").status_code == 204
    assert api("GET", "/console/session", who=None).status_code == 401


# -- files of the console --------------------------------------------------------------------------------------


def test_every_answer_has_a_strict_content_security_policy(api: Api) -> None:
    pages = [
        api("GET", path, who=None) for path in ("/", "/console/sign-in", f"{ASSETS.address}/console.css")
    ]
    sign_in(api, api.keys["admin"])
    pages += [api("GET", path, who=None) for path in ("/console/", f"{ASSETS.address}/main.js")]
    (policy,) = {page.headers["Content-Security-Policy"] for page in pages}
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} < set(policy.split("; "))
    assert "unsafe" not in policy
    assert {page.headers["X-Content-Type-Options"] for page in pages} == {"nosniff"}


def test_browsers_may_cache_files_but_not_pages(api: Api) -> None:
    sign_in(api, api.keys["admin"])
    page, file = (api("GET", path, who=None) for path in ("/console/", f"{ASSETS.address}/main.js"))
    assert page.headers["Cache-Control"] == "no-store"
    assert file.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert file.content == (FOLDER / "main.js").read_bytes()
    old = ASSETS.address[:-1] + ("0" if ASSETS.address[-1] != "0" else "1")
    assert api("GET", f"{old}/main.js", who=None).status_code == 404


@pytest.mark.parametrize("name", ["index.html", "../console.py", "..%2fconsole.py", "vendor", ""])
def test_only_files_of_the_console_are_served(api: Api, name: str) -> None:
    sign_in(api, api.keys["admin"])
    assert api("GET", f"{ASSETS.address}/{name}", who=None).status_code == 404


def test_changed_console_file_changes_the_address_of_all_console_files(tmp_path: Path) -> None:
    for name in ("index.html", "sign-in.html", "a.js", "b.js"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    before = read_assets(tmp_path).address
    (tmp_path / "a.js").write_text("y", encoding="utf-8")
    assert read_assets(tmp_path).address != before


def own_files(*suffixes: str) -> dict[str, str]:
    paths = [path for path in FOLDER.rglob("*") if path.suffix in suffixes and VENDOR not in path.parents]
    assert paths
    return {path.name: path.read_text("utf-8") for path in paths}


def test_pages_name_existing_files_and_have_no_inline_script_or_style() -> None:
    for page in own_files(".html").values():
        named = re.findall(r'(?:src|href)="\{assets\}/([^"]+)"', page)
        assert set(named) <= set(ASSETS.files)
        others = re.findall(r'(?:src|href)="(?!\{assets\}/|#)([^"]+)"', page)
        assert others == []
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)


def test_modules_import_existing_files_and_never_parse_text_as_markup() -> None:
    for name, text in own_files(".js").items():
        imported = re.findall(r'from "\./([^"]+)"', text)
        assert set(imported) <= set(ASSETS.files), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text), name


def test_console_files_refer_to_no_other_host() -> None:
    for name, text in own_files(".js", ".css", ".html").items():
        addresses = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), name


def test_chart_library_has_the_hashes_of_its_readme() -> None:
    readme = (VENDOR / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `([\w.]+)` \| `sha512-([\w+/=]+)` \|$", readme, re.MULTILINE))
    found = {
        path.name: base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        for path in VENDOR.iterdir()
        if path.name != "README.md"
    }
    assert listed == found


def test_wheel_contains_every_file_of_the_console() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    wanted = {path.relative_to(ROOT).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert set(ASSETS.files) <= {name.removeprefix("services/api/console/") for name in wanted}
    assert wanted <= packed
    assert {path.suffix for path in FOLDER.rglob("*") if path.is_file()} <= {*MEDIA_TYPES, ".html", ".md", ""}


# -- colours of the console ------------------------------------------------------------------------------------

COLOURS = dict(
    re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", (FOLDER / "console.css").read_text("utf-8"))
)
TEXTS = ("text", "muted", "accent", "good", "bad", "warned")
SURFACES = ("page", "surface", "sunken")
# Least contrast by WCAG 2.2, level AA: first of text, then of graphics and controls.
TEXT_LEAST, GRAPHIC_LEAST = 4.5, 3.0
PAIRS = [
    *((text, surface, TEXT_LEAST) for text in TEXTS for surface in SURFACES),
    *((kind, f"{kind}-surface", TEXT_LEAST) for kind in ("good", "bad", "warned")),
    *(("text", f"{kind}-surface", TEXT_LEAST) for kind in ("good", "bad", "warned")),
    ("on-accent", "accent", TEXT_LEAST),
    *((f"series-{number}", "surface", GRAPHIC_LEAST) for number in range(1, 7)),
    *(("control", surface, GRAPHIC_LEAST) for surface in ("surface", "page")),
]


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(front: str, back: str) -> float:
    dark, light = sorted((luminance(front), luminance(back)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "back", "least"), PAIRS)
def test_colours_have_enough_contrast_to_their_background(
    front: str, back: str, least: float, theme: int
) -> None:
    colours = (COLOURS[name].split(", ")[theme] for name in (front, back))
    assert contrast(*colours) >= least


def test_contrast_of_known_colours_is_correct() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
