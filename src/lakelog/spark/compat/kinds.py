"""Classes of PySpark that older releases do not have, or have elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from lakelog.io.names import new_uuid
from lakelog.spark.compat.natives import (
    CHECKPOINT_PACKAGE,
    CLASSIC_PACKAGE,
    SCALARS,
    TIMES_OF_DAY,
    TRY_CASTS,
    VARIANTS,
)

if TYPE_CHECKING or CLASSIC_PACKAGE:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
else:
    from pyspark.sql import DataFrame as ClassicFrame

if TYPE_CHECKING or TIMES_OF_DAY:
    from pyspark.sql.types import DatetimeType, TimeType

    DATETIMES: tuple[type[spark_types.DataType], ...] = (DatetimeType,)
else:

    class TimeType(spark_types.AtomicType):
        """Stands for a type that no value here has."""

    DATETIMES = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)

if TYPE_CHECKING or VARIANTS:
    from pyspark.sql.types import VariantType
else:

    class VariantType(spark_types.AtomicType):
        """Stands for a type that no value here has."""


def sessions_class(spark: SparkSession) -> Any:
    """Scala's object of the sessions of a process, of a session that is not remote."""
    jvm: Any = spark._jvm
    return SparkSession._get_j_spark_session_class(jvm) if CLASSIC_PACKAGE else jvm.SparkSession


def frame_of_plan(spark: SparkSession, plan: Any) -> ClassicFrame:
    """The frame of an analysed plan, in a session that is not remote."""
    jvm: Any = spark._jvm
    sql = jvm.org.apache.spark.sql
    datasets = sql.classic.Dataset if CLASSIC_PACKAGE else sql.Dataset
    return ClassicFrame(datasets.ofRows(spark._jsparkSession, plan), spark)


def scalar(frame: DataFrame) -> Column:
    """The one value of a frame, as a column of other frames."""
    if SCALARS:
        return frame.scalar()
    name = f"lakelog_scalar_{new_uuid().replace('-', '')}"
    frame.createOrReplaceTempView(name)  # stays: the text is resolved where the column is used
    return sf.expr(f"(SELECT * FROM {name})")


def try_cast(column: Column, kind: spark_types.DataType, text: str) -> Column:
    """A column in a type, NULL where a value does not fit; ``text`` is the column in SQL."""
    return column.try_cast(kind) if TRY_CASTS else sf.expr(f"TRY_CAST({text} AS {kind.simpleString()})")


CHECKPOINT_MANAGER: Final = (
    f"org.apache.spark.sql.execution.streaming.{'checkpointing.' if CHECKPOINT_PACKAGE else ''}"
    "FileSystemBasedCheckpointFileManager"
)

__all__ = [
    "CHECKPOINT_MANAGER",
    "DATETIMES",
    "ClassicFrame",
    "TimeType",
    "VariantType",
    "frame_of_plan",
    "scalar",
    "sessions_class",
    "try_cast",
]
