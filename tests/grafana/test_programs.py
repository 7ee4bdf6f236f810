"""The cache of the built Grafana server, tested without building the server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.grafana.programs import GRAFANA, MODULE, build_missing, built
from tests.support.checkout import ROOT


def build(cache: Path, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.grafana.programs"],
        cwd=ROOT,
        env=os.environ | {"PATH": path, "WEIR_GRAFANA_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_missing_go_and_c_compiler_are_reported_in_one_line(tmp_path: Path) -> None:
    done = build(tmp_path, path="")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "grafana: Go 1.26 or newer and a C compiler (apt-get install gcc libc6-dev) are missing; "
        "they build Grafana from source\n"
    )


def test_failed_go_build_is_reported_in_one_line(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho context >&2\necho 'the proxy does not answer' >&2\nexit 1\n")
    go.chmod(0o755)
    done = build(tmp_path / "cache", path=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (done.returncode, done.stderr) == (
        1,
        "grafana: go mod failed in module: the proxy does not answer\n",
    )


def test_programs_in_the_cache_are_used_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_GRAFANA_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    built().mkdir()
    assert build_missing() == built()


def test_every_pinned_version_has_a_checksum_in_go_sum() -> None:
    pins = (MODULE / "go.mod").read_text()
    replaced = re.findall(r"^replace (\S+) => (\S+) (\S+)$", pins, re.M)
    pinned = re.findall(r"^\t([^\s(]+) (v\S+)", pins, re.M)
    sums = {tuple(line.split()[:2]) for line in (MODULE / "go.sum").read_text().splitlines()}
    names = {old for old, _, _ in replaced}
    wanted = [pair for pair in pinned if pair[0] not in names] + [
        (new, version) for _, new, version in replaced
    ]
    assert any(name == GRAFANA for name, _ in wanted)
    assert [pair for pair in wanted if (pair[0], f"{pair[1]}/go.mod") not in sums] == []
