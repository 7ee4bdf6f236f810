"""One Spark session for all tests of this process, because its JVM takes seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark_weir.options import KEY_VARIABLE

from services.ingest.java import find_java
from tests.spark.door import KEY

SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # Spark's log is switched off, because the tests cause failures on purpose.
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(find_java(None, os.environ).home))
        # Spark's Python workers need the packages of the Python that runs the tests.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # The key must be in the environment before the JVM starts, because the JVM never sees later changes.
        patch.setenv(KEY_VARIABLE, KEY)
        builder = SparkSession.builder
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()
