"""A Spark session whose own ``spark.sql`` understands lakelog's statements."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from lakelog.spark.runtime.types import spark_schema

Arguments = dict[str, Any] | list[Any]

_ARGUMENTS: Final[ContextVar[Arguments | None]] = ContextVar("arguments", default=None)
"""Parameter values (``:name``, ``?``) of the running statement."""
_FRAMES: Final[ContextVar[Mapping[str, DataFrame]]] = ContextVar("frames", default=MappingProxyType({}))
"""Frames for ``{name}`` in the running statement, where Spark keeps no view of them."""


def spark_sql(spark: SparkSession, text: str, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Spark's own ``spark.sql``, attached or not, with the parameters of the running statement.

    ``frames`` are the frames for names in the text. No view remains. A classic frame contains its plan. Spark Connect
    resolves names when a frame runs, so these frames are sent with the text.
    """
    named = {**_FRAMES.get(), **(frames or {})}
    if is_remote():
        return _sql(spark, *_with_placeholders(text, named))
    try:
        for name, frame in named.items():
            frame.createOrReplaceTempView(name)
        return _sql(spark, text, {})
    finally:
        for name in named:
            spark.catalog.dropTempView(name)


def _sql(spark: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    frame: DataFrame = type(spark).sql(spark, text, _ARGUMENTS.get(), **frames)
    return frame


def _with_placeholders(text: str, frames: Mapping[str, DataFrame]) -> tuple[str, Mapping[str, DataFrame]]:
    """The text with ``{name}`` instead of frame names, for Spark's own formatting, and the frames."""
    if not frames:
        return text, frames
    names = re.compile(rf"\b(?:{'|'.join(map(re.escape, frames))})\b")
    return names.sub(r"{\g<0>}", text.replace("{", "{{").replace("}", "}}")), frames


def attach(spark: SparkSession, run: Callable[[str], list[Any]]) -> Callable[..., Any]:
    """Makes ``spark.sql`` of this object run texts with ``run``; other statements are passed to Spark.

    Results are DataFrames, as Spark's are; only an INSERT from a stream returns its StreamingQuery. Returns the
    function for ``detach`` to remove.
    """

    def sql(sqlQuery: str, args: Arguments | None = None, **kwargs: Any) -> Any:  # noqa: N803 - Spark's own names
        with _formatted(spark, sqlQuery, kwargs) as text, _with_arguments(args):
            results = run(text)
        return _frame(spark, results[-1] if results else None)

    spark.sql = sql  # type: ignore[method-assign]
    return sql


def detach(spark: SparkSession, attached: Callable[..., Any]) -> bool:
    """Restores the session's own ``spark.sql``; false, and nothing happens, if it, or another lake's, is active."""
    if vars(spark).get("sql") is not attached:
        return False
    del spark.sql
    return True


@contextmanager
def _with_arguments(args: Arguments | None) -> Iterator[None]:
    token = _ARGUMENTS.set(args)
    try:
        yield
    finally:
        _ARGUMENTS.reset(token)


@contextmanager
def _formatted(spark: SparkSession, text: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The text with ``{name}`` replaced as Spark does it; DataFrames among the values are views for the duration."""
    if not values:
        yield text
        return
    module = "pyspark.sql.connect" if is_remote() else "pyspark.sql"
    formatter = importlib.import_module(f"{module}.sql_formatter").SQLStringFormatter(spark)
    try:
        formatted = formatter.format(text, **values)
        with _with_frames(spark, formatter._temp_views if is_remote() else ()):
            yield formatted
    finally:
        formatter.clear()


@contextmanager
def _with_frames(spark: SparkSession, frames: Iterable[tuple[DataFrame, str]]) -> Iterator[None]:
    """Frames that Spark Connect's formatting has named without creating views; lakelog resolves the names, too."""
    named = {name: frame for frame, name in frames}
    token = _FRAMES.set(named)
    try:
        for name, frame in named.items():
            frame.createOrReplaceTempView(name)
        yield
    finally:
        _FRAMES.reset(token)
        for name in named:
            spark.catalog.dropTempView(name)


def _frame(spark: SparkSession, result: Any) -> Any:
    if result is None:
        return spark.createDataFrame([], StructType([]))
    if not isinstance(result, pa.Table):
        return result
    return spark.createDataFrame(result.to_pylist(), spark_schema(result.schema))
