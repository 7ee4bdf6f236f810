"""Connector between Spark and Weir: the data source `format("weir")`, and `to_weir` for foreachBatch (docs/spark.md).

The package needs pyspark and pyarrow, but no other package of Weir. Spark finds the package by its name.
"""

from pyspark_weir.driver import to_weir
from pyspark_weir.errors import DataLoss, GatewayAway, OptionError, Refused, WeirError
from pyspark_weir.source import DefaultSource

__all__ = ["DataLoss", "DefaultSource", "GatewayAway", "OptionError", "Refused", "WeirError", "to_weir"]
