"""Imports of `weir` at its start: `--version` and shell completion import no heavy package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from services.cli.main import MainCommands, app
from tests.support.checkout import ROOT

# Packages that take long to import. The packages `engine` and `sim` stand for all packages of Weir.
HEAVY = (
    "engine",
    "fastapi",
    "httpx",
    "matplotlib",
    "numpy",
    "pyarrow",
    "ray",
    "sim",
    "sqlalchemy",
    "sqlglot",
)
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr, end=""))
from services.cli.main import main
main()
"""


def imported(home: Path, *arguments: str, **environ: str) -> tuple[list[str], list[str]]:
    """Run `weir` and return the words that it prints and the heavy packages that it imports."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("WEIR")}
        | {"WEIR_HOME": str(home)}
        | environ,
        capture_output=True,
        text=True,
    )
    return done.stdout.split(), done.stderr.split()


def completed(home: Path, *words: str) -> tuple[list[str], list[str]]:
    """Return what bash's completion of these words prints, and the heavy packages that it imports."""
    words = ("weir", *words)
    return imported(
        home, _WEIR_COMPLETE="complete_bash", COMP_WORDS=" ".join(words), COMP_CWORD=str(len(words) - 1)
    )


def test_the_option_version_imports_no_heavy_package(tmp_path: Path) -> None:
    printed, heavy = imported(tmp_path, "--version")
    assert (printed[0], heavy) == ("weir", [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["results"]),
        (["q"], ["query"]),
        (["--ver"], ["--version"]),
        (["results", "--fo"], ["--follow"]),
        (["query", "a"], ["add"]),
        (["delete", "pri"], ["priorityclass"]),
        (["delete", "Pri"], ["PriorityClass"]),
        # Names of tenants come from the catalog, and this test has no catalog.
        (["get", "Tenant", "a"], []),
        (["results", "acme/"], []),
    ],
)
def test_shell_completion_imports_no_heavy_package(
    tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    assert completed(tmp_path, *words) == (expected, [])


def test_every_lazily_imported_command_has_its_name_panel_and_help() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    found = {name: (one.name, getattr(one, "rich_help_panel", None)) for name, one in group.commands.items()}
    assert found == {name: (name, place.panel) for name, place in MainCommands.places.items()}
    assert all(one.help for one in group.commands.values())


def test_shell_completion_completes_names_of_presets(tmp_path: Path) -> None:
    names, _ = completed(tmp_path, "sim", "overl")
    assert names == ["overload-2x"]
