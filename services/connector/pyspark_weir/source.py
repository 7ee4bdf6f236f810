"""Data source `format("weir")`. Spark finds its class by the package's name, and creates instances in several processes."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_weir.options import read_options, write_options
from pyspark_weir.reader import BatchReader, StreamReader, schema_of
from pyspark_weir.sink import BatchWriter, StreamWriter, refuse_overwrite


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "weir"

    def schema(self) -> StructType:
        return schema_of(read_options(self.options, "readStream"))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        refuse_overwrite(overwrite)
        return BatchWriter(write_options(self.options, "write"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        refuse_overwrite(overwrite)
        return StreamWriter(write_options(self.options, "writeStream"))

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(read_options(self.options, "read"), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(read_options(self.options, "readStream"), schema)
