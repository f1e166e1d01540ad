"""Errors of Spark, by the same classes and names on every PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException, SparkRuntimeException

from lakelog.errors import UnsupportedFeature
from lakelog.spark.compat.natives import CONDITIONS, VARIANT_PATHS


def condition_of(failed: PySparkException) -> str | None:
    """The name of an error of Spark's list of errors, None if it has none."""
    return failed.getCondition() if CONDITIONS else failed.getErrorClass()


def refuses_mode(refused: AnalysisException) -> bool:
    """Whether an error is the refusal of an operation in the output mode of a stream."""
    if CONDITIONS:
        return refused.getCondition() == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
    return "output mode not supported" in str(refused)


@contextmanager
def job_failures() -> Iterator[None]:
    """Raises SparkRuntimeException for a failed job that PySpark 3.5 reports as an error of its gateway."""
    try:
        yield
    except Py4JJavaError as failed:
        raise SparkRuntimeException(str(failed.java_exception.toString())) from failed


@contextmanager
def newer_syntax() -> Iterator[None]:
    """Raises UnsupportedFeature for the text of a statement that a newer Spark parses."""
    try:
        yield
    except ParseException as failed:
        if VARIANT_PATHS or "near ':'" not in str(failed):
            raise
        raise UnsupportedFeature(
            f"{str(failed).strip().partition(chr(10))[0]}. A path into a VARIANT value, as in v:a::int, needs Spark "
            f"{VARIANT_PATHS.text}: write variant_get(v, '$.a', 'int')"
        ) from failed
