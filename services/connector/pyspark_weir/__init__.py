"""Weir for Spark: `format("weir")`, and `to_weir` for foreachBatch. docs/spark.md tells how to use them.

Stands alone: it needs pyspark and pyarrow, and nothing else of Weir. Spark finds it by its name.
"""

from pyspark_weir.driver import to_weir
from pyspark_weir.errors import DataLoss, GatewayAway, OptionError, Refused, WeirError
from pyspark_weir.source import DefaultSource

__all__ = ["DataLoss", "DefaultSource", "GatewayAway", "OptionError", "Refused", "WeirError", "to_weir"]
