"""A declaration leads to a warning if the files of its source do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from configs.documents.declarations import documents_of
from services.cli.main import app
from services.common.weir_home import Home
from services.ingest.paths import missing_paths
from tests.support.api import api_over

STREAM = """
kind: Stream
name: readings
columns: {{v: int64}}
source: {{format: {format}, options: {{{options}}}{more}}}
"""


def warnings_for(format: str, options: str) -> list[str]:
    more = "" if format in ("rate", "weir_feeder") else ", schema: v BIGINT"
    documents = documents_of(STREAM.format(format=format, options=options, more=more))
    return missing_paths(document.declaration for document in documents)


def test_each_missing_path_of_a_feed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.json").touch()
    start = "Stream readings: source.options.path: there is nothing at"
    end = "; the feed fails until the path exists"
    seen = f", relative to {tmp_path} (for `weir up`, relative to the folder in which it was started){end}"
    assert warnings_for("json", f"path: {tmp_path}/here") == []
    assert warnings_for("json", "path: here") == []
    assert warnings_for("json", "path: 'here/*.json'") == []
    assert warnings_for("json", "path: 'file:///'") == []
    assert warnings_for("json", "path: 's3a://bucket/there'") == []
    assert warnings_for("rate", "rowsPerSecond: 1") == []
    assert warnings_for("json", f"path: {tmp_path}/there") == [f"{start} {tmp_path}/there yet{end}"]
    assert warnings_for("parquet", "PATH: there") == [f"{start} there{seen}"]
    assert warnings_for("csv", "path: 'here/*.csv'") == [f"{start} here/*.csv{seen}"]
    assert warnings_for("weir_feeder", "path: 'here/a.json, b.json, c.json', rate: 1") == [
        f"{start} b.json{seen}",
        f"{start} c.json{seen}",
    ]


def test_apply_warns_of_a_missing_path_and_declares_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WEIR_ENDPOINT", raising=False)
    file = tmp_path / "streams.yaml"
    options = f"path: {tmp_path}/there"
    file.write_text(
        STREAM.format(format="json", options=options, more=", schema: v BIGINT"), encoding="utf-8"
    )
    result = CliRunner().invoke(app, ["apply", "-f", str(file)])
    assert result.exit_code == 0
    assert (
        f"warning: Stream readings: source.options.path: there is nothing at {tmp_path}/there yet"
        in result.stderr
    )
    assert "Stream readings  created" in " ".join(result.stdout.split("\n"))


def test_service_warns_only_if_it_runs_the_feeds_itself(tmp_path: Path) -> None:
    (document,) = documents_of(
        STREAM.format(format="json", options=f"path: {tmp_path}/there", more=", schema: v BIGINT")
    )
    body = {"documents": [document.declaration.model_dump(mode="json", by_alias=True, exclude_none=True)]}
    with api_over(Home(tmp_path / "home")) as api:
        assert api("POST", "/v1/apply?dry_run=true", body).json()["warnings"] == []
        api.service.brought = tuple
        (warning,) = api("POST", "/v1/apply", body).json()["warnings"]
    assert f"there is nothing at {tmp_path}/there yet" in warning
