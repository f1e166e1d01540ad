"""Copies a table of another system into lakelog: ``lakelog migrate``. One class and one line per source."""

from __future__ import annotations

from typing import Final

from lakelog.options.registry import Registry
from lakelog.service.migration.source import Source

SOURCES: Final[Registry[Source]] = Registry(
    "source",
    {
        "parquet": "lakelog.service.migration.arrow_sources:ParquetSource",
        "delta": "lakelog.service.migration.arrow_sources:DeltaSource",
        "iceberg": "lakelog.service.migration.arrow_sources:IcebergSource",
        "spark": "lakelog.service.migration.spark_source:SparkSource",
    },
)
"""Every kind of source: its name → a class that takes the lake and the address of the source."""
