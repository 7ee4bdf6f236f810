"""Data source `spark.readStream.format("weir_feeder")`: replays files as a stream, at a rate that its options set.

Spark registers the source by itself if the package is on Python's path, because its name begins with pyspark_.
"""

from pyspark_weir_feeder.source import DefaultSource

__all__ = ["DefaultSource"]
