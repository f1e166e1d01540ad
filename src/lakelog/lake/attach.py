"""``lakelog.attach``: runs lakelog's statements through plain ``spark.sql``."""

from __future__ import annotations

from typing import Any

from lakelog.lake.lake import Lake, Place, connect


def attach(spark: Any, warehouse: Place = "./warehouse", **more: Any) -> Lake:
    """Opens a warehouse and makes the methods of this session object know its tables.

    ``spark.sql`` runs statements on them, and passes other statements to Spark, with their parameters and ``{name}``
    values. Results are DataFrames. ``spark.table``, ``read.table``, ``readStream.table``, ``writeStream.toTable``,
    ``insertInto``, ``saveAsTable``, ``writeTo``, ``spark.catalog`` and ``newSession`` know the tables, too; on Spark
    Connect only ``spark.sql`` and ``spark.table``. ``more`` are arguments of ``connect``. ``close`` of the lake
    restores the session.
    """
    lake = connect(spark, warehouse, **more)
    lake.attach()
    return lake
