"""Help of every command: `-h`, `--help` and `weir help` print the same text, and its examples work."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.core import TyperGroup
from typer.main import get_command

from services.cli.examples import EXAMPLES
from services.cli.main import app
from tests.support.terminal import Terminal

DOCUMENTS = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Tenant, name: acme, priority_class: gold}
"""
# Examples that run without a service, in this order: later examples use what earlier examples have declared.
RUN_HERE = {
    "": ["weir help query add", 'weir query add acme/odd "SELECT * FROM ticks WHERE value % 2 = 1"'],
    "plan": EXAMPLES["plan"][:1],
    "apply": EXAMPLES["apply"][:2],
    "get": EXAMPLES["get"],
    "describe": EXAMPLES["describe"],
    "query add": [EXAMPLES["query add"][1], EXAMPLES["query add"][3]],
    "query ls": EXAMPLES["query ls"],
    "query": EXAMPLES["query"],
    "keys create": EXAMPLES["keys create"],
    "keys ls": EXAMPLES["keys ls"],
    "config": EXAMPLES["config"][:1],
    "config show": EXAMPLES["config show"],
    "run": EXAMPLES["run"],
    "help": EXAMPLES["help"],
    "version": EXAMPLES["version"],
    "query rm": EXAMPLES["query rm"][1:],
    "delete": EXAMPLES["delete"][2:],
}


def commands(group: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group, with the words that are typed after `weir`."""
    yield before, group
    if isinstance(group, TyperGroup):
        for name in list(group.commands):
            yield from commands(group.commands[name], *before, name)


ALL = [words for words, _ in commands(get_command(app))]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_help_option_prints_the_same_text_with_examples(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    code, out, err = terminal(*words, "-h")
    assert (code, err) == (0, "")
    assert terminal(*words, "--help") == (0, out, "")
    assert terminal("help", *words) == (0, out, "")
    assert "\nExamples:\n  $ weir" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_texts_of_commands_and_options_are_sentences() -> None:
    for words, command in commands(get_command(app)):
        assert command.help[0].isupper(), words
        for parameter in command.params:
            text = parameter.help
            assert text, (words, parameter.name)
            assert text[0].isupper(), (words, text)
            assert text.endswith((".", "…")) or not text.endswith((",", ";")), (words, text)
            assert len(text.split()) > 2, (words, text)
            assert "The same" not in text, (words, text)
            assert not text.startswith(("Whose", "Who ", "Of ", "As ", "For ", "Its ")), (words, text)


def test_help_shows_no_python_types(terminal: Terminal) -> None:
    for words in ALL:
        out = terminal(*words, "-h")[1]
        assert "bool" not in out
        assert "list[" not in out
        assert "int range" not in out


def test_every_command_has_its_own_examples() -> None:
    assert {" ".join(words) for words in ALL} == set(EXAMPLES)
    for name, examples in EXAMPLES.items():
        for example in examples:
            assert words_of(example)[: len(name.split())] == name.split(), example


def words_of(example: str) -> list[str]:
    """Return the words after `weir`, without a preceding pipe and without a comment."""
    program, *words = shlex.split(example.rpartition(" | ")[2], comments=True)
    assert program == "weir"
    return words


@pytest.mark.parametrize("example", [one for some in EXAMPLES.values() for one in some])
def test_examples_are_accepted_by_the_parser(example: str) -> None:
    words, command = words_of(example), get_command(app)
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    with command.make_context("weir", words):
        pass


NOT_CHECKED = "warning: no service runs here: delay targets were not checked; `weir plan` checks them\n"


def test_examples_that_need_no_service_run(terminal: Terminal, tmp_path: Path) -> None:
    Path("documents.yaml").write_text(DOCUMENTS, encoding="utf-8")
    Path("tenant.yaml").write_text("{kind: Tenant, name: other, priority_class: silver}", encoding="utf-8")
    Path("tenants/deep").mkdir(parents=True)
    Path("tenants/deep/other.yml").write_text(
        "{kind: Tenant, name: deep, priority_class: silver}", encoding="utf-8"
    )
    Path("odd.sql").write_text("SELECT * FROM ticks WHERE value % 2 = 1", encoding="utf-8")
    Path("queries.sql").write_text(
        "CREATE STREAM ticks (value int64); SELECT value FROM ticks WHERE value > 3;", encoding="utf-8"
    )
    table = pa.table({"value": [1, 2, 3, 4, 5]})
    pyarrow.csv.write_csv(table, "ticks.csv")
    pyarrow.parquet.write_table(table, "ticks.parquet")
    assert terminal("apply", "documents.yaml")[0] == 0
    for examples in RUN_HERE.values():
        for example in examples:
            code, out, err = terminal(*words_of(example))
            assert (code, err.removeprefix(NOT_CHECKED)) == (0, ""), (example, out, err)
