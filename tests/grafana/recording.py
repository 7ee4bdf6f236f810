"""Metrics of the real demonstration, recorded by a real Prometheus that still runs after the demonstration has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from services.metrics.prometheus import Prometheus
from tests.support.checkout import ROOT

WEIR = [sys.executable, "-c", "from services.cli.main import main; main()"]
# Twice as much input as the machine can process, so that classes lend, shed and miss their targets.
DEMO = ("demo", "--scenario", "overload", "--load", "2", "--seconds", "30", "--prometheus")
DEMO_S = 900.0
POLL_S = 0.2
# The demonstration waits a minute for the first rows of Spark. On a busy machine, Spark may need longer.
TRIES = 3
# Seconds at the end of the recording that do not count, because the demonstration is ending.
ENDING_S = 5.0
LEAST_S = 20.0


@dataclass(frozen=True)
class Recording:
    """Prometheus with the metrics of a demonstration. `begin` and `end` are seconds since 1970."""

    prometheus: Prometheus
    begin: float
    end: float


@contextmanager
def recorded(folder: Path) -> Iterator[Recording]:
    """Run the demonstration to its end, while a Prometheus of this process scrapes it."""
    log = folder / "demo.log"
    with ExitStack() as running:
        demo, (target, token) = begun(folder, log, running)
        prometheus = running.enter_context(Prometheus(folder / "prometheus", target, token))
        # Exit code 1 says that a promise was broken, which happens on a busy machine.
        assert demo.wait(DEMO_S) in (0, 1), log.read_text()
        begin, end = span(prometheus)
        assert end - begin > LEAST_S, f"the demonstration was scraped for {end - begin:.0f} s only"
        yield Recording(prometheus, begin, end)


def begun(folder: Path, log: Path, running: ExitStack) -> tuple[subprocess.Popen[bytes], tuple[str, str]]:
    """Start the demonstration, repeatedly if it fails to start. Return its process, and the address and token of its metrics."""
    for _ in range(TRIES):
        # Ray puts sockets below this folder, and the path of a socket has at most 107 characters.
        temporary = Path(running.enter_context(TemporaryDirectory(prefix="weir-")))
        demo = running.enter_context(demonstration(folder, temporary, log))
        address = scraped_address(temporary, demo)
        if address is not None:
            return demo, address
    raise AssertionError(log.read_text())


@contextmanager
def demonstration(folder: Path, temporary: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the demonstration. Terminate it at the end of the `with` block if it still runs."""
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [*WEIR, *DEMO],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield demo
    finally:
        if demo.poll() is None:
            demo.terminate()
            demo.wait(DEMO_S)


def scraped_address(folder: Path, demo: subprocess.Popen[bytes]) -> tuple[str, str] | None:
    """Wait for the configuration of the demonstration's own Prometheus. Return the address and the token in the configuration.

    Return None if the demonstration ends without a configuration.
    """
    until = time.monotonic() + DEMO_S
    while time.monotonic() < until:
        for config in folder.glob("weir-demo-*/prometheus/prometheus.yml"):
            # The configuration file may be incomplete, because the demonstration may still be writing it.
            if (read := yaml.safe_load(config.read_text())) and "scrape_configs" in read:
                (job,) = read["scrape_configs"]
                token = Path(job["authorization"]["credentials_file"]).read_text()
                return job["static_configs"][0]["targets"][0], token
        if demo.poll() is not None:
            return None
        time.sleep(POLL_S)
    raise AssertionError(f"the demonstration has not started within {DEMO_S:g} s")


def span(prometheus: Prometheus) -> tuple[float, float]:
    """Return the time of the first successful scrape, and of the last successful scrape before the demonstration began to end."""
    ((begin,), (end,)) = (
        [series.points[0][1] for series in prometheus.ask(f"{which}(timestamp(up == 1)[1h:1s])")]
        for which in ("min_over_time", "max_over_time")
    )
    return begin, end - ENDING_S
