"""The cache of built programs, tested without building a program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.programs import MODULES, Module, build_missing, modules, operator_versions
from tests.cluster.release import chart_values
from tests.support.checkout import ROOT


def build(cache: Path, path: str, module: str = "programs") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"tests.cluster.{module}"],
        cwd=ROOT,
        env=os.environ | {"PATH": path, "WEIR_CLUSTER_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_missing_go_is_reported_in_one_line(tmp_path: Path) -> None:
    done = build(tmp_path, path="")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cluster: Go 1.26 or newer is missing; it builds Kubernetes, KubeRay and kwok\n"


def test_missing_programs_of_a_node_are_reported_in_one_line(tmp_path: Path) -> None:
    done = build(tmp_path, path="", module="machine")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("node: a node needs containerd, ")
    assert done.stderr.endswith("; `.ci/tools node` installs packages\n")
    assert done.stderr.count("\n") == 1


def test_failed_go_build_is_reported_in_one_line(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho context >&2\necho 'the proxy does not answer' >&2\nexit 1\n")
    go.chmod(0o755)
    done = build(tmp_path / "cache", path=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 1
    assert done.stderr.endswith(": the proxy does not answer\n")
    assert done.stderr.count("\n") == 1


def test_programs_in_the_cache_are_used_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CLUSTER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    for found in modules():
        found.built.mkdir()
    build_missing()


def test_module_with_changed_pinned_versions_gets_its_own_folder_in_the_cache(tmp_path: Path) -> None:
    (tmp_path / "kwok").mkdir()
    for name in ("go.mod", "go.sum"):
        (tmp_path / "kwok" / name).write_bytes((MODULES / "kwok" / name).read_bytes())
    same, other = Module(tmp_path / "kwok"), MODULES / "kwok"
    assert same.built == Module(other).built
    (tmp_path / "kwok" / "go.sum").write_text("")
    assert Module(tmp_path / "kwok").built != Module(other).built


def test_every_go_module_names_programs_to_build_except_the_module_kinds() -> None:
    assert {found.folder.name: found.tools for found in modules() if not found.tools} == {"kinds": []}
    assert len(operator_versions()) == 3


def test_operations_page_lists_the_tested_versions_values_and_tests() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (KubeRay|[\d.]+) \|(.*)\|$", page, re.MULTILINE)
    header, *rows = [(name, [cell.strip() for cell in cells.split("|")]) for name, cells in table]
    assert header == ("KubeRay", chart_values())
    assert [name for name, _ in rows] == operator_versions()
    assert all(cell.startswith("✓") for _, cells in rows for cell in cells)
    tests = (ROOT / "tests/cluster/test_releases.py").read_text(encoding="utf-8")
    section = page.partition("### Versions that are tested")[2].partition("\n#")[0]
    named = re.findall(r"`(test_\w+)`", section)
    assert named
    assert [name for name in named if f"def {name}(" not in tests] == []
