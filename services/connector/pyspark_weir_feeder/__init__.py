"""`spark.readStream.format("weir_feeder")`: files replayed as a stream, at the rate of one's choice.

Spark registers the source by itself, because the package is on the path and its name begins with pyspark_.
"""

from pyspark_weir_feeder.source import DefaultSource

__all__ = ["DefaultSource"]
