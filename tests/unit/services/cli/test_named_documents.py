"""Documents as arguments of `weir apply`, `diff` and `delete`: files, folders, standard input, and several names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.terminal import Terminal

STREAM = "{kind: Stream, name: ticks, columns: {x: int64}}\n"
TENANT = "{kind: Tenant, name: acme, priority_class: gold}\n"
QUERIES = "".join(
    f"---\n{{kind: Query, tenant: acme, name: {name}, sql: SELECT x FROM {source}}}\n"
    for name, source in (("first", "ticks"), ("second", "first"), ("third", "second"))
)


@pytest.fixture
def weir(terminal: Terminal) -> Terminal:
    terminal.set_columns(120)
    return terminal


def written(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return path


def names(weir: Terminal, kind: str) -> list[str]:
    return [one["name"] for one in json.loads(weir("get", kind, "-o", "json")[1])]


def test_documents_can_come_from_standard_input(weir: Terminal) -> None:
    code, out, err = weir("apply", "-f", "-", stdin=STREAM)
    assert (code, err, names(weir, "streams")) == (0, "", ["ticks"])
    assert "1 created" in out
    assert weir("apply", "-f", "-", stdin="kind: Stream")[2].startswith("error: standard input:1, document 1")


def test_a_folder_is_read_in_the_order_of_its_file_names(weir: Terminal) -> None:
    written("all/2.json", json.dumps({"kind": "Tenant", "name": "acme", "priority_class": "gold"}))
    written("all/1.yaml", STREAM)
    written("all/notes.txt", "none of it")
    written("all/inside/3.yml", TENANT.replace("acme", "globex"))
    assert weir("diff", "-f", "all")[0] == 1
    code, out, _ = weir("apply", "-f", "all", "-o", "json")
    assert (code, [one["name"] for one in json.loads(out)]) == (0, ["ticks", "acme"])
    assert weir("apply", "-f", "all", "-R")[0] == 0
    assert names(weir, "tenants") == ["acme", "globex"]
    Path("empty").mkdir()
    code, _, err = weir("apply", "-f", "empty")
    assert (code, "the folder has no .yaml, .yml, .json file" in err) == (2, True)


def test_files_can_be_given_with_and_without_the_option_f(weir: Terminal) -> None:
    assert weir("apply", written("s.yaml", STREAM), "-f", written("t.yaml", TENANT))[0] == 0
    assert (names(weir, "streams"), names(weir, "tenants")) == (["ticks"], ["acme"])
    code, _, err = weir("apply")
    assert (code, err) == (
        2,
        "error: --file: a required value is missing\n  hint: write -f FILE, -f FOLDER, or -f - for standard input\n",
    )


def test_every_wrong_document_is_reported_with_its_line(weir: Terminal) -> None:
    text = "kind: Stream\nname: s\ncolumns: {x: int64}\nwatermark: 5\n---\nkind: Tenantt\nname: x\n"
    other = "# a comment\n\nkind: Tenant\nnam: x\npriority_class: gold\n"
    code, out, err = weir("apply", "-f", written("a.yaml", text), "-f", written("b.yaml", other))
    assert (code, out) == (2, "")
    assert [line for line in err.splitlines() if not line.startswith("  hint: ")] == [
        "error: a.yaml:4, document 1 (Stream s): watermark: the value must be text (got 5)",
        "error: a.yaml:6, document 2: kind: there is no kind of document with this name (got 'Tenantt')",
        "error: b.yaml:4, document 1 (Tenant): nam: unknown key (got 'nam')",
    ]
    assert names(weir, "streams") == []


def test_documents_are_deleted_before_the_documents_they_use(weir: Terminal) -> None:
    file = written("all.yaml", STREAM + "---\n" + TENANT + QUERIES)
    assert weir("apply", file)[0] == 0
    assert weir("delete", "-f", file) == (
        0,
        "deleted Query acme/third\ndeleted Query acme/second\ndeleted Query acme/first\n"
        "deleted Tenant acme\ndeleted Stream ticks\n",
        "",
    )


def test_several_queries_are_deleted_together_or_not_at_all(weir: Terminal) -> None:
    assert weir("apply", written("all.yaml", STREAM + "---\n" + TENANT + QUERIES))[0] == 0
    code, out, err = weir("delete", "query", "acme/third", "acme/secund")
    assert (code, out, "secund" in err) == (2, "", True)
    assert weir("delete", "query", "acme/second", "acme/third") == (
        0,
        "deleted Query acme/third\ndeleted Query acme/second\n",
        "",
    )
    # If the catalog has a single tenant, the tenant's name may be left out.
    assert weir("query", "rm", "first") == (0, "deleted Query acme/first\n", "")


def test_deleting_all_documents_of_a_kind_needs_a_confirmation(weir: Terminal) -> None:
    assert weir("apply", written("all.yaml", STREAM + "---\n" + TENANT + QUERIES))[0] == 0
    code, out, err = weir("query", "rm", "--all")
    assert (code, out, "add --yes" in err) == (2, "", True)
    assert len(names(weir, "queries")) == 3
    assert weir("query", "rm", "--all", "--tenant", "acme", "--yes")[0] == 0
    assert names(weir, "queries") == []
    assert weir("delete", "streams", "--all", "-y") == (0, "deleted Stream ticks\n", "")
    for wrong in (("query", "rm"), ("delete", "stream"), ("delete",), ("query", "rm", "a/b", "--all")):
        assert weir(*wrong)[0] == 2
