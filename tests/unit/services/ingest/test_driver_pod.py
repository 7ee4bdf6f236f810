"""Spark's driver in a pod of Kubernetes: the executors belong to the pod of the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.documents.spark_streams import StreamsFile
from configs.yaml_loading import parse_model
from services.ingest.session import settings

FILE = {
    "session": {"master": "k8s://https://kubernetes.default.svc"},
    "streams": {
        "ticks": {
            "columns": {"ts": "timestamp"},
            "time": "ts",
            "source": {"format": "rate", "sql": "SELECT timestamp AS ts FROM source"},
        }
    },
}


def test_executors_belong_to_the_pod_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = parse_model(StreamsFile, FILE), tmp_path
    monkeypatch.setenv("POD_NAME", "east-weir-ingest-0")
    assert settings(file, folder)["spark.kubernetes.driver.pod.name"] == "east-weir-ingest-0"
    monkeypatch.delenv("POD_NAME")
    assert "spark.kubernetes.driver.pod.name" not in settings(file, folder)
