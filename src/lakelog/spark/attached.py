"""A Spark session whose own ``spark.sql`` understands lakelog's statements."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakelog.spark.types import spark_schema

Arguments = dict[str, Any] | list[Any]

_ARGUMENTS: Final[ContextVar[Arguments | None]] = ContextVar("arguments", default=None)
"""Values of the parameters (``:name``, ``?``) in the statement that runs."""


def spark_sql(spark: SparkSession, text: str) -> DataFrame:
    """Spark's own ``spark.sql``, attached or not, with the parameters of the statement that runs."""
    found: DataFrame = type(spark).sql(spark, text, _ARGUMENTS.get())
    return found


def attach(spark: SparkSession, run: Callable[[str], list[Any]]) -> Callable[..., Any]:
    """From now on ``spark.sql`` of this object runs texts by ``run``: what is not lakelog's goes on to Spark.

    Its answers are DataFrames, as Spark's are; only an INSERT from a stream answers with its StreamingQuery. Returns
    what ``detach`` takes away.
    """

    def sql(sqlQuery: str, args: Arguments | None = None, **kwargs: Any) -> Any:  # noqa: N803 - Spark's own names
        with _formatted(spark, sqlQuery, kwargs) as text, _with_arguments(args):
            results = run(text)
        return _frame(spark, results[-1] if results else None)

    spark.sql = sql  # type: ignore[method-assign]
    return sql


def detach(spark: SparkSession, attached: Callable[..., Any]) -> None:
    """Gives the session its own ``spark.sql`` back; does nothing when it has it, or another lake's."""
    if vars(spark).get("sql") is attached:
        del spark.sql


@contextmanager
def _with_arguments(args: Arguments | None) -> Iterator[None]:
    token = _ARGUMENTS.set(args)
    try:
        yield
    finally:
        _ARGUMENTS.reset(token)


@contextmanager
def _formatted(spark: SparkSession, text: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The text with ``{name}`` replaced as Spark does it; DataFrames among the values are views meanwhile."""
    if not values:
        yield text
        return
    place = "pyspark.sql.connect" if ".connect." in type(spark).__module__ else "pyspark.sql"
    formatter = importlib.import_module(f"{place}.sql_formatter").SQLStringFormatter(spark)
    try:
        yield formatter.format(text, **values)
    finally:
        formatter.clear()


def _frame(spark: SparkSession, result: Any) -> Any:
    if result is None:
        return spark.createDataFrame([], StructType([]))
    if not isinstance(result, pa.Table):
        return result
    return spark.createDataFrame(result.to_pylist(), spark_schema(result.schema))
