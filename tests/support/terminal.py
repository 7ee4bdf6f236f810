"""A terminal: the command `weir` in this process, in a folder and a home of its own."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from services.cli.main import main

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
        """Standard output, strictly read: `NaN` is not JSON."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


@dataclass
class Terminal:
    """Calls the command with the words that a user types after `weir` and those in `begins`."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    home: Path
    begins: tuple[str, ...] = ()

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        self.monkeypatch.setattr(sys, "argv", ["weir", *self.begins, *arguments])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self.capsys.readouterr()
        return Outcome(ended.value.code, printed.out, printed.err)

    def json(self, *arguments: str) -> Any:
        """The answer of a command that succeeds without a warning."""
        outcome = self(*arguments, "-o", "json")
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.json

    def at(self, endpoint: str, key: str) -> None:
        """Call the service of this endpoint from now on."""
        self.monkeypatch.setenv("WEIR_ENDPOINT", endpoint)
        self.monkeypatch.setenv("WEIR_API_KEY", key)

    def set_columns(self, columns: int) -> None:
        self.monkeypatch.setenv("COLUMNS", str(columns))


def refusal(*lines: str) -> Outcome:
    """The outcome of wrong input: this text on standard error, and nothing on standard output as if it had been accepted."""
    return Outcome(2, "", "error: " + "\n".join(lines) + "\n")
