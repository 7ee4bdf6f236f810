"""What `weir` imports before it knows what it is to do: next to nothing."""

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

# Each takes longer to import than everything else that these need; engine and sim stand for what is ours.
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
    """The lines that are printed, and what has been imported of those."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        env={name: one for name, one in os.environ.items() if not name.startswith("WEIR")}
        | {"WEIR_HOME": str(home)}
        | environ,
        capture_output=True,
        text=True,
    )
    return done.stdout.split(), done.stderr.split()


def completed(home: Path, *words: str) -> tuple[list[str], list[str]]:
    """As bash asks for it."""
    words = ("weir", *words)
    return imported(
        home, _WEIR_COMPLETE="complete_bash", COMP_WORDS=" ".join(words), COMP_CWORD=str(len(words) - 1)
    )


def test_the_version_is_told_without_anything_else(tmp_path: Path) -> None:
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
        (["get", "Tenant", "a"], []),  # of the catalog, and there is none
        (["results", "acme/"], []),
    ],
)
def test_what_the_shell_completes_waits_for_nothing_that_it_does_not_need(
    tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    assert completed(tmp_path, *words) == (expected, [])


def test_every_place_has_a_command_of_its_name() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    found = {name: (one.name, getattr(one, "rich_help_panel", None)) for name, one in group.commands.items()}
    assert found == {name: (name, place.panel) for name, place in MainCommands.places.items()}
    assert all(one.help for one in group.commands.values())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sim", "overl"], ["overload-2x"]),
        (["papers", "golab"], None),
        (["papers", "nothing-of-the-kind"], []),
    ],
)
def test_presets_and_papers_are_completed(
    tmp_path: Path, words: list[str], expected: list[str] | None
) -> None:
    found, _ = completed(tmp_path, *words)
    assert found == expected if expected is not None else found
    assert all(name.startswith(words[-1]) for name in found)
