"""Terminal for tests: the command `weir` runs in the process of the tests, with its own folder and home."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from services.cli.main import app, main

VARIABLES = (
    *("WEIR_CATALOG", "WEIR_PEPPER", "WEIR_ENDPOINT", "WEIR_API_KEY", "WEIR_CA_FILE"),
    "GRAFANA_TOKEN",
)


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int | str | None
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output parsed as strict JSON, in which `NaN` is an error."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


@dataclass
class Terminal:
    """Function that calls a command, by default `weir`. The arguments in `begins` precede the arguments of each call."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    home: Path
    begins: tuple[str, ...] = ()
    command: typer.Typer = app
    name: str = "weir"

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        self.monkeypatch.setattr(sys, "argv", [self.name, *self.begins, *arguments])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main(self.command, self.name)
        printed = self.capsys.readouterr()
        return Outcome(ended.value.code, printed.out, printed.err)

    def json(self, *arguments: str) -> Any:
        """Return the JSON output of a command that succeeds without a warning."""
        outcome = self(*arguments, "-o", "json")
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.json

    def at(self, endpoint: str, key: str) -> None:
        """Make all later commands use the service at this endpoint."""
        self.monkeypatch.setenv("WEIR_ENDPOINT", endpoint)
        self.monkeypatch.setenv("WEIR_API_KEY", key)

    def set_columns(self, columns: int) -> None:
        self.monkeypatch.setenv("COLUMNS", str(columns))


def refusal(*lines: str) -> Outcome:
    """Return the expected outcome of a command that refuses wrong input: the given text on standard error, and no standard output."""
    return Outcome(2, "", "error: " + "\n".join(lines) + "\n")
