"""``lakelog.attach``: plain ``spark.sql`` understands lakelog's statements."""

from __future__ import annotations

from typing import Any

from lakelog.lake.lake import Lake, connect


def attach(spark: Any, warehouse: str = "./warehouse", **more: Any) -> Lake:
    """Opens a warehouse and lets ``spark.sql`` of this session object run statements on its tables.

    What is not lakelog's goes on to Spark, with its parameters and ``{name}`` values. Answers are DataFrames. Other
    objects of the same session (``spark.newSession()``, ``getOrCreate()`` again) are as before. ``more`` is what
    ``connect`` takes. ``close`` of the lake gives the session its own ``spark.sql`` back.
    """
    lake = connect(spark, warehouse, **more)
    lake.attach()
    return lake
