"""A real Grafana on a free loopback port, with all its data in one folder. This Grafana sends no reports, asks for no updates, and installs no plugins.

with started(folder, provisioning) as server:
    organisation = server.organisation()
    Grafana(server.url, organisation.token("Editor"))
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.cluster.control_plane import free_ports, process, tail
from tests.grafana.programs import build_missing

Role = Literal["Viewer", "Editor", "Admin"]
START_S = 120.0
ANSWER_S = 60.0
POLL_S = 0.2
ADMIN = "admin"
# Settings of Grafana. They switch off every feature that calls other machines.
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "analytics": {
        "reporting_enabled": "false",
        "check_for_updates": "false",
        "check_for_plugin_updates": "false",
        "feedback_links_enabled": "false",
    },
    "security": {"admin_user": ADMIN, "disable_gravatar": "true"},
    "plugins": {"plugin_admin_enabled": "false"},
    "grafana_com": {"url": "http://127.0.0.1:1"},
    "grafana_net": {"url": "http://127.0.0.1:1"},
    "news": {"news_feed_enabled": "false"},
    "log": {"mode": "console", "level": "warn"},
}


@dataclass(frozen=True)
class Organisation:
    """Separate organisation in Grafana, so that tests share no folders, dashboards or data sources."""

    server: RealServer
    id: int

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request as the server's administrator, with user name and password."""
        return self.server.ask(method, path, body, organisation=self.id)

    def told(self, method: str, path: str, body: object = None) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    def token(self, role: Role) -> str:
        """Return the token of a new service account with this role."""
        # Names of service accounts are unique in the whole server.
        name = f"{role} {secrets.token_hex(6)}"
        made = self.ask("POST", "/api/serviceaccounts", {"name": name, "role": role})
        assert made.status_code == httpx.codes.CREATED, made.text
        return str(
            self.told("POST", f"/api/serviceaccounts/{made.json()['id']}/tokens", {"name": name})["key"]
        )


@dataclass(frozen=True)
class RealServer:
    url: str
    password: str
    log: Path

    def ask(self, method: str, path: str, body: object = None, organisation: int = 1) -> httpx.Response:
        return httpx.request(
            method,
            self.url + path,
            json=body,
            auth=(ADMIN, self.password),
            headers={"X-Grafana-Org-Id": str(organisation)},
            timeout=ANSWER_S,
            trust_env=False,
        )

    def organisation(self) -> Organisation:
        made = self.ask("POST", "/api/orgs", {"name": f"of a test {secrets.token_hex(6)}"})
        assert made.status_code == httpx.codes.OK, made.text
        return Organisation(self, made.json()["orgId"])


@contextmanager
def started(folder: Path, provisioning: Path) -> Iterator[RealServer]:
    """Start Grafana with the files in `provisioning`, and stop it at the end."""
    home, (port,) = build_missing(), free_ports(1)
    server = RealServer(f"http://127.0.0.1:{port}", secrets.token_hex(16), folder / "grafana.log")
    settings = {
        **SETTINGS,
        "paths": {name: str(folder / name) for name in ("data", "logs", "plugins")}
        | {"provisioning": str(provisioning)},
        "server": {"http_addr": "127.0.0.1", "http_port": str(port)},
    }
    options = [
        f"cfg:default.{section}.{name}={value}"
        for section, values in settings.items()
        for name, value in values.items()
    ]
    # The password is not an option, because all users of the machine can read command lines.
    secret = {"GF_SECURITY_ADMIN_PASSWORD": server.password}
    with process([home / "bin" / "grafana", "server", "--homepath", home, *options], server.log, secret):
        wait_until_ready(server)
        yield server


def wait_until_ready(server: RealServer) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            if server.ask("GET", "/api/health").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(POLL_S)
    raise AssertionError(f"Grafana has not started within {START_S:g} s:\n{tail(server.log)}")
