"""`weir apply --wait`: declarations for a service that is still starting."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from configs.service.service_settings import ServiceSettings
from tests.support.served import served
from tests.support.terminal import Terminal

DOCUMENT = "{kind: Tenant, name: acme, priority_class: gold}"
APPLY = "from services.cli.main import main; main()"


def test_apply_waits_for_a_service_that_starts(tmp_path: Path) -> None:
    with served(tmp_path / "home") as found:
        key, port = found.key("admin"), int(found.url.rpartition(":")[2])
    environ = os.environ | {"WEIR_ENDPOINT": f"http://127.0.0.1:{port}", "WEIR_API_KEY": key}
    command = [sys.executable, "-c", APPLY, "apply", "-f", "-", "--wait", "60s"]
    with socket.create_server(("127.0.0.1", port)) as away:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)
        assert process.stdin is not None
        process.stdin.write(DOCUMENT.encode())
        process.stdin.close()
        away.settimeout(60.0)
        away.accept()[0].close()
    with served(tmp_path / "home", ServiceSettings(port=port)) as found:
        assert process.wait(60.0) == 0
        assert [str(entry.ref) for entry in found.client().all("Tenant")] == ["Tenant acme"]


def test_apply_fails_with_the_services_error_when_its_waiting_time_is_over(terminal: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    terminal.monkeypatch.setenv("WEIR_ENDPOINT", f"http://127.0.0.1:{port}")
    terminal.monkeypatch.setenv("WEIR_API_KEY", "weir_any")
    done = terminal("apply", "-f", "-", "--wait", "1s", stdin=DOCUMENT)
    assert (done.code, "does not answer" in done.err) == (3, True)
    done = terminal("apply", "-f", "-", "--wait", "soon", stdin=DOCUMENT)
    assert (done.code, "this is not a duration" in done.err, "--wait" in done.err) == (2, True, True)
