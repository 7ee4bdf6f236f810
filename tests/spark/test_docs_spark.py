"""The Python code of docs/spark.md runs and does what the page says. Code that needs Kafka is only compiled."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from configs.documents.spark_streams import StreamsFile
from configs.yaml_loading import parse_model, parse_yaml
from tests.spark.door import Answers, opened

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs/spark.md").read_text(encoding="utf-8")


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_python_examples_of_docs_spark_run(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    given = [{"ts": "2026-01-01T00:00:01Z", "sensor": number, "temp": 25.0 + number} for number in range(10)]
    (tmp_path / "in" / "0.json").write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    with opened(tmp_path / "node") as node:
        for statement in "\n".join(fenced("sql")).split(";")[:-1]:
            node.streams.declare(statement)
        Answers(node, "gold").add(range(7))
        names: dict[str, Any] = {"spark": spark}
        for block in fenced("python"):
            exec(as_here(block, node.endpoint, tmp_path), names)
            for query in spark.streams.active:
                query.processAllAvailable()
                query.stop()
        everything = [*range(10), *range(10)]
        assert sorted(node.column("readings", "sensor")) == sorted(everything)
        assert node.column("hot", "sensor") == [6, 7, 8, 9]
        assert sorted(node.column("counts", "readings"), key=str) == [1] * 10 + [None] * 10
        assert spark.read.parquet(str(tmp_path / "answers")).count() == 7


def as_here(block: str, endpoint: str, folder: Path) -> str:
    return block.replace("grpc://127.0.0.1:5005", endpoint).replace('"/data/', f'"{folder}/')


def test_yaml_example_of_the_spark_page_is_valid() -> None:
    (definition,) = fenced("yaml")
    assert list(parse_model(StreamsFile, parse_yaml(definition)).streams) == ["orders"]


def test_kafka_example_of_the_spark_page_compiles() -> None:
    (block,) = fenced("python kafka")
    compile(block, "docs/spark.md", "exec")
