"""A local Prometheus server, started as a child process for a demonstration. It scrapes one address and evaluates Weir's rules.

Example:

    with Prometheus(folder, exporter.address, exporter.token) as prometheus:
        prometheus.ask("up")                          # value now
        prometheus.over("up", begin, end, step_s=1)   # values from begin to end
        prometheus.rules()                            # rules with their health
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from configs.errors import Away, InvalidInput
from services.metrics.exporter import LOOPBACK

PROGRAM = "prometheus"
HINT = "run `apt-get install prometheus` (as root, `make tools` does it)"
RULES = Path(__file__).parents[2] / "helm" / "weir" / "rules"
"""Folder of the chart's recording rules and alerts."""
SCRAPE_S = 1
EVALUATE_S = 5
KEPT = "1d"
READY_S = 30.0
STOP_S = 10.0
ANSWER_S = 30.0
POLL_S = 0.05
# Number of ports that are tried, because another process may take a free port before Prometheus listens on it.
TRIES = 3
LOG_TOLD = 2000


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """One time series in the result of a PromQL query."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    """Pairs of a time, in seconds since 1970, and a value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A recording rule or an alert, with its health."""

    name: str
    kind: str
    """`recording` or `alerting`."""
    health: str
    """`ok`, `err`, or `unknown` before the first evaluation."""
    error: str
    state: str
    """State of an alert: `inactive`, `pending` or `firing`."""


def find_program() -> str:
    """Return the path of the Prometheus program; raise InvalidInput if it is not installed."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise InvalidInput("Prometheus is not installed on this machine", "--prometheus", hint=HINT)
    return program


class Prometheus:
    """A Prometheus process that listens on 127.0.0.1 and keeps all its files in `folder`."""

    def __init__(self, folder: Path, target: str, token: str) -> None:
        self._folder, self._target, self._token = folder, target, token
        self._program = find_program()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Prometheus:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._configured()
        try:
            for _ in range(TRIES):
                if self._started(config):
                    return self
            raise Away("Prometheus does not start; the end of its log follows", hint=self._log()[-LOG_TOLD:])
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the Prometheus process, if it still runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _configured(self) -> Path:
        token = self._folder / "token"
        with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(self._token)
        config = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{EVALUATE_S}s"},
            "rule_files": [str(RULES / "*.yaml")],
            "scrape_configs": [
                {
                    "job_name": "weir",
                    "authorization": {"type": "Bearer", "credentials_file": str(token)},
                    "static_configs": [{"targets": [self._target]}],
                }
            ],
        }
        path = self._folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def _started(self, config: Path) -> bool:
        """Start Prometheus on a free port; if Prometheus does not become ready, end its process and return False."""
        with socket.socket() as free:
            free.bind((LOOPBACK, 0))
            address = f"{LOOPBACK}:{free.getsockname()[1]}"
        arguments = [
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--storage.tsdb.retention.time={KEPT}",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ]
        with self._log_path.open("ab") as log:
            # In a session of its own, Prometheus does not receive Ctrl-C; the parent process ends it instead.
            self._process = subprocess.Popen(
                [self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.url = f"http://{address}"
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/-/ready", timeout=ANSWER_S).status_code == httpx.codes.OK:
                    return True
            if self._process.poll() is not None:
                return False
            time.sleep(POLL_S)
        self.stop()
        return False

    @property
    def _log_path(self) -> Path:
        return self._folder / "prometheus.log"

    def _log(self) -> str:
        try:
            return self._log_path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def ask(self, expr: str, at: float | None = None) -> list[LabelledSeries]:
        """Return the result of a PromQL query at time `at` or now; raise InvalidInput with Prometheus's message if the query is invalid."""
        answer = self._asked("query", {"query": expr} | ({} if at is None else {"time": at}))
        if answer["resultType"] == "scalar":
            at, value = answer["result"]
            return [LabelledSeries({}, [(float(at), float(value))])]
        return [LabelledSeries(series["metric"], [point(series["value"])]) for series in answer["result"]]

    def over(self, expr: str, begin: float, end: float, step_s: float) -> list[LabelledSeries]:
        """Return the results of a PromQL query for all times from `begin` to `end` that are `step_s` seconds apart."""
        answer = self._asked("query_range", {"query": expr, "start": begin, "end": end, "step": step_s})
        return [
            LabelledSeries(series["metric"], [point(each) for each in series["values"]])
            for series in answer["result"]
        ]

    def rules(self) -> list[Rule]:
        return [
            Rule(
                rule["name"],
                rule["type"],
                rule["health"],
                rule.get("lastError", ""),
                rule.get("state", "inactive"),
            )
            for group in self._asked("rules", {})["groups"]
            for rule in group["rules"]
        ]

    def _asked(self, what: str, form: Mapping[str, Any]) -> Any:
        try:
            if form:
                answer = httpx.post(f"{self.url}/api/v1/{what}", data=form, timeout=ANSWER_S)
            else:
                answer = httpx.get(f"{self.url}/api/v1/{what}", timeout=ANSWER_S)
            content = answer.json()
        except (httpx.HTTPError, ValueError) as problem:
            raise Away("Prometheus does not answer", hint=str(problem)) from None
        if content["status"] != "success":
            raise InvalidInput(
                content["error"], value=form.get("query"), hint="correct the query: Prometheus refused it"
            )
        return content["data"]


def point(told: Sequence[Any]) -> tuple[float, float]:
    return float(told[0]), float(told[1])
