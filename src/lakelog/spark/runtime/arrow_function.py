"""Functions over Arrow arrays as columns of a frame, on every kind of Spark."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.utils import is_remote
from pyspark.util import PythonEvalType


def arrow_function(function: Callable[..., pa.Array], kind: str) -> Callable[..., Column]:
    """``function`` of Arrow arrays, called in the workers batch by batch, as one of columns; ``kind`` is Spark's type.

    PySpark's own ``arrow_udf`` asks for pandas, which it does not need.
    """
    udf = import_module(f"pyspark.sql.{'connect.' if is_remote() else ''}udf").UserDefinedFunction
    made: Callable[..., Column] = udf(function, kind, evalType=PythonEvalType.SQL_SCALAR_ARROW_UDF)
    return made
