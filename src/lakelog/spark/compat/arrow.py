"""Arrow rows to Spark and back, and functions of Arrow batches, on every PySpark."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas import types as pandas_types
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.utils import is_remote

from lakelog.spark.compat.natives import ARROW_FRAMES, ARROW_FUNCTIONS

ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_MAP: Final = 207
"""``PythonEvalType.SQL_MAP_ARROW_ITER_UDF``, whose module has changed."""
_SCALAR: Final = 250
"""``PythonEvalType.SQL_SCALAR_ARROW_UDF``."""
_WITH_ZONE: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(pandas_types.to_arrow_schema).parameters else {}
)


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark requires of a batch for this Spark schema."""
    return pandas_types.to_arrow_schema(schema, **_WITH_ZONE)


def from_arrow(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow columns (timestamps with a zone are TIMESTAMP, without one TIMESTAMP_NTZ)."""
    return pandas_types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame, in this process."""
    if ARROW_FRAMES:
        return frame.toArrow()
    target = to_arrow(frame.schema)
    batches = frame._collect_as_arrow()  # type: ignore[operator]
    return pa.Table.from_batches([batch.cast(target) for batch in batches], target)


def frame_of_rows(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """A frame that contains rows, whose Arrow types are those that Spark has for the schema."""
    if ARROW_FRAMES:
        return spark.createDataFrame(rows, schema)
    serializers: Any = import_module("pyspark.sql.pandas.serializers")
    jvm: Any = spark._jvm
    most = int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000)
    batches = rows.cast(to_arrow(schema)).to_batches(max_chunksize=most)
    context: Any = spark.sparkContext
    sql, stream = jvm.PythonSQLUtils, serializers.ArrowStreamSerializer()
    there = context._serialize_to_jvm(batches, stream, sql.readArrowStreamFromFile, jvm.ArrowIteratorServer)
    return DataFrame(sql.toDataFrame(there, schema.json(), spark._jsparkSession), spark)


def map_in_arrow(frame: DataFrame, function: ArrowMap, schema: StructType, name: str | None = None) -> DataFrame:
    """``frame.mapInArrow`` without its unnecessary pandas requirement in sessions that are not remote.

    ``name`` is that of the function in Spark's plan.
    """
    if is_remote():
        return frame.mapInArrow(function, schema)
    mapped = UserDefinedFunction(function, schema, name, evalType=_MAP)
    column: Any = mapped(*(frame[_quoted(name)] for name in frame.columns))
    there: Any = frame._jdf
    mapped_there = (
        there.mapInArrow(column._jc, False, None) if ARROW_FRAMES else there.pythonMapInArrow(column._jc.expr(), False)
    )
    return DataFrame(mapped_there, frame.sparkSession)


def with_arrow_column(
    frame: DataFrame, name: str, function: Callable[..., pa.Array], kind: SparkType, inputs: Sequence[str]
) -> DataFrame:
    """The frame with one more column, which ``function`` computes of the Arrow arrays of some columns, batch by batch.

    PySpark's own ``arrow_udf`` requires pandas, which it does not need.
    """
    if ARROW_FUNCTIONS:
        udf = import_module(f"pyspark.sql.{'connect.' if is_remote() else ''}udf").UserDefinedFunction
        function_of = udf(function, kind, evalType=_SCALAR)
        columns = [frame[_quoted(column)] for column in frame.columns]
        return frame.select(*columns, function_of(*(frame[_quoted(column)] for column in inputs)).alias(name))
    schema = StructType([*frame.schema.fields, StructField(name, kind)])
    target = to_arrow(schema)

    def appended(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = function(*(batch.column(column) for column in inputs))
            yield pa.RecordBatch.from_arrays([*batch.columns, values], schema=target)

    return map_in_arrow(frame, appended, schema)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
