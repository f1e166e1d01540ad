"""``lakelog.attach``: runs lakelog's statements through plain ``spark.sql``."""

from __future__ import annotations

from typing import Any

from lakelog.lake.lake import Lake, Place, connect


def attach(spark: Any, warehouse: Place = "./warehouse", **more: Any) -> Lake:
    """Opens a warehouse and makes ``spark.sql`` of this session object run statements on its tables.

    Other statements are passed to Spark, with their parameters and ``{name}`` values. Results are DataFrames. Other
    objects of the same session (``spark.newSession()``, ``getOrCreate()`` again) do not change. ``more`` are arguments
    of ``connect``. ``close`` of the lake restores the session's own ``spark.sql``.
    """
    lake = connect(spark, warehouse, **more)
    lake.attach()
    return lake
