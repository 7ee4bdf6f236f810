"""`helm uninstall` with Redis: the RayCluster is deleted first, while the Secrets for its clean-up still exist."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.helm.chart import CHART, RELEASE, Object, of_kind, rendered, rendered_ci
from tests.support.served import certificate_in

pytestmark = pytest.mark.helm
SCRIPT = CHART / "files" / "remove_cluster.py"
NAME = f"{RELEASE}-weir-uninstall"
PATH = f"/apis/ray.io/v1/namespaces/streams/rayclusters/{RELEASE}-weir"


def hooks() -> list[Object]:
    objects = rendered_ci(CHART / "ci" / "ha-values.yaml")
    return [
        each
        for each in objects
        if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"
    ]


def test_uninstall_hook_may_delete_only_the_cluster_of_its_own_release() -> None:
    by_kind = {each["kind"]: each for each in hooks()}
    assert set(by_kind) == {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Job"}
    (rule,) = by_kind["Role"]["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == ([f"{RELEASE}-weir"], ["get", "delete"])
    assert by_kind["RoleBinding"]["subjects"][0]["name"] == NAME
    pod = by_kind["Job"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (NAME, True)
    assert by_kind["ConfigMap"]["data"]["remove_cluster.py"].strip() == SCRIPT.read_text("utf-8").strip()
    weights = {
        kind: int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for kind, each in by_kind.items()
    }
    assert weights.pop("Job") > max(weights.values())


def test_without_redis_the_chart_renders_no_uninstall_hook() -> None:
    assert NAME not in {each["metadata"]["name"] for each in rendered()}
    assert of_kind(rendered(), "Role") == []


class Kubernetes(ThreadingHTTPServer):
    """HTTPS server for the two calls of the Kubernetes API that the uninstall script makes."""

    def __init__(self, folder: Path, remains: int, status: int = 200) -> None:
        """Answer the first `remains` requests with `status`, as if the RayCluster existed, and later requests with 404."""
        super().__init__(("127.0.0.1", 0), Call)
        certificate, key = certificate_in(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.remains, self.status = remains, status
        self.calls: list[tuple[str, str, str | None]] = []


class Call(BaseHTTPRequestHandler):
    server: Kubernetes

    def do_GET(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.server.calls.append((self.command, self.path, self.headers["Authorization"]))
        is_gone = len(self.server.calls) > self.server.remains
        self.send_response(404 if is_gone else self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def kubernetes(
    folder: Path, remains: int, status: int = 200
) -> Iterator[tuple[Kubernetes, Mapping[str, str]]]:
    with Kubernetes(folder, remains, status) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "cert.pem").rename(folder / "ca.crt")
        (folder / "token").write_text("secret\n", encoding="utf-8")
        host, port = server.server_address[:2]
        yield (
            server,
            os.environ
            | {
                "KUBERNETES_SERVICE_HOST": str(host),
                "KUBERNETES_SERVICE_PORT": str(port),
                "WEIR_ACCOUNT_FOLDER": str(folder),
            },
        )
        server.shutdown()


def run(environ: Mapping[str, str], within_s: str = "60") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "streams", f"{RELEASE}-weir", within_s]
    return subprocess.run(command, env=dict(environ), capture_output=True, text=True, timeout=90, check=False)


def test_uninstall_script_waits_until_the_cluster_is_gone(tmp_path: Path) -> None:
    with kubernetes(tmp_path, remains=2) as (server, environ):
        done = run(environ)
    assert (done.returncode, "is gone" in done.stdout) == (0, True), done.stderr
    assert server.calls == [(method, PATH, "Bearer secret") for method in ("DELETE", "GET", "GET")]


def test_uninstall_script_fails_if_deleting_is_forbidden_or_the_cluster_remains(tmp_path: Path) -> None:
    with kubernetes(tmp_path, remains=9, status=403) as (_, environ):
        done = run(environ)
    assert (done.returncode, "answers 403" in done.stdout) == (1, True), done.stderr
    with kubernetes(tmp_path, remains=9) as (_, environ):
        done = run(environ, "1")
    assert (done.returncode, "still exists after 1 s" in done.stdout) == (1, True), done.stderr


def test_helm_deletes_the_objects_of_hooks_that_succeed() -> None:
    """Check the delete policy of hooks. Without a delete policy, Helm keeps the objects of a hook when a release is uninstalled."""
    objects = rendered_ci(CHART / "ci" / "ha-values.yaml") + rendered_ci(CHART / "ci" / "minimal-values.yaml")
    annotations = [each["metadata"].get("annotations", {}) for each in objects]
    policies = [each["helm.sh/hook-delete-policy"] for each in annotations if "helm.sh/hook" in each]
    assert len(policies) >= 3
    assert all("hook-succeeded" in policy for policy in policies), policies
