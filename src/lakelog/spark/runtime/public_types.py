"""The types of PySpark that methods of a lake take and return. Imported by type checkers only."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["DataFrame", "SparkSession", "StreamingQuery"]
