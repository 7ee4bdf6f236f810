"""A Prometheus of one's own: the real program, told to scrape one address and to follow Weir's rules, as long as it is asked.

with Prometheus(folder, exporter.address, exporter.token) as prometheus:
    prometheus.ask("up")                          # as of now
    prometheus.over("up", begin, end, step_s=1)   # in steps
    prometheus.rules()                            # and whether each can be evaluated
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
from types import TracebackType
from typing import Any

import httpx
import yaml

from configs.errors import Away, InvalidInput
from services.metrics.exporter import LOOPBACK

PROGRAM = "prometheus"
HINT = "apt-get install prometheus (make tools does, as root)"
RULES = Path(__file__).parents[2] / "helm" / "weir" / "rules"
"""Where the chart has them."""
SCRAPE_S = 1
EVALUATE_S = 5
KEPT = "1d"
READY_S = 30.0
STOP_S = 10.0
ANSWER_S = 30.0
POLL_S = 0.05
# Somebody else may take a port between our finding it free and its being listened at.
TRIES = 3
LOG_TOLD = 2000


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """Of an answer."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    """Seconds since 1970, and the value."""


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    kind: str
    """`recording` or `alerting`."""
    health: str
    """`ok`, `err`, or `unknown` before it is evaluated."""
    error: str
    state: str
    """Of an alert: `inactive`, `pending` or `firing`."""


def find_program() -> str:
    program = shutil.which(PROGRAM)
    if program is None:
        raise InvalidInput("there is no Prometheus on this machine", "--prometheus", hint=HINT)
    return program


class Prometheus:
    """Listens at this machine's own address; everything that it keeps is in the folder."""

    def __init__(self, folder: Path, target: str, token: str) -> None:
        self._folder, self._target, self._token = folder, target, token
        self._program = find_program()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Prometheus:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._configured()
        try:
            for tried in range(1, TRIES + 1):
                if self._started(config):
                    return self
                if tried == TRIES:
                    raise Away("Prometheus does not start", hint=self._log()[-LOG_TOLD:])
        except BaseException:
            self.stop()
            raise
        raise AssertionError("one of the tries was the last")

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Idempotent."""
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
        """Whether it has come up; if not, it has ended."""
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
            # A session of its own: Ctrl-C is for who started it, who ends it in its turn.
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

    # -- asking ------------------------------------------------------------------------------------------------

    def ask(self, expr: str, at: float | None = None) -> list[LabelledSeries]:
        """As of then, or now; InvalidInput with Prometheus's own words if it is no PromQL."""
        answer = self._asked("query", {"query": expr} | ({} if at is None else {"time": at}))
        if answer["resultType"] == "scalar":
            at, value = answer["result"]
            return [LabelledSeries({}, [(float(at), float(value))])]
        return [LabelledSeries(series["metric"], [point(series["value"])]) for series in answer["result"]]

    def over(self, expr: str, begin: float, end: float, step_s: float) -> list[LabelledSeries]:
        """The same at every step from begin to end."""
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
            raise InvalidInput(content["error"], value=form.get("query"), hint="Prometheus has refused it")
        return content["data"]


def point(told: Sequence[Any]) -> tuple[float, float]:
    return float(told[0]), float(told[1])
