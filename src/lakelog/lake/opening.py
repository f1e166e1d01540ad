"""The ways in: ``connect`` to a warehouse, ``attach`` it to a Spark session, ``open_table`` of one directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, overload

import polars as pl

from lakelog.errors import InvalidRequest
from lakelog.lake.lake import Lake, Place, warehouse_text
from lakelog.lake.table import Table
from lakelog.options.boundary import guarded, shown_value
from lakelog.options.environment import BARS
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.table.open import split_path


@overload
def connect(
    warehouse: Place = "./warehouse",
    *,
    spark: Any = None,
    settings: Mapping[str, str] | None = None,
    catalog: str = "lakelog",
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
) -> Lake: ...


@overload
def connect(
    spark: Any,
    /,
    warehouse: Place = "./warehouse",
    *,
    settings: Mapping[str, str] | None = None,
    catalog: str = "lakelog",
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
) -> Lake: ...


@guarded
def connect(
    first: Any = None,
    second: Any = None,
    /,
    *,
    warehouse: Place | None = None,
    spark: Any = None,
    settings: Mapping[str, str] | None = None,
    catalog: str = "lakelog",
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
) -> Lake:
    """Opens a warehouse: ``lakelog.connect("./warehouse")``.

    ``warehouse`` is a directory (text or ``Path``, with ``~`` for the home directory), or a URI such as
    ``s3://bucket/warehouse`` or ``hdfs://namenode:8020/warehouse``. It is created with the first table. ``spark`` is a
    session to use (classic or Connect), which may also come first. Without one, lakelog starts a local session when a
    statement needs it, with ``settings`` on top of lakelog's. ``catalog`` is the warehouse's name in SQL.
    ``storage_options`` configure access to the storage (``s3.endpoint``, ``s3.access-key``, …); they are stored in no
    table and never printed. ``catalog_options`` (``catalog.type``, ``catalog.uri``, …) select the registry of table
    names: the directories, or a database. ``catalogs`` are further ones by name, each with its ``warehouse`` and all
    its options in one map: ``{"prod": {"warehouse": "s3://…", "s3.endpoint": …, "catalog.type": "sql", …}}``. Raises
    UnsupportedFeature for an unknown scheme, InvalidOption, InvalidRequest, and NotInstalled with the pip command.
    """
    for given in (first, second):
        if isinstance(given, str | os.PathLike):
            warehouse = _once("warehouse", warehouse, given)
        elif given is not None:
            spark = _once("spark", spark, _session_of(given))
    if hasattr(sys, "ps1") and sys.stderr.isatty():  # at a prompt; a program prints nothing of its own
        BARS.create("terminal")
    place = "./warehouse" if warehouse is None else warehouse
    return Lake(place, spark, settings, catalog, storage_options, catalog_options, catalogs)


@guarded
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


@guarded
def open_table(path: Place, *, storage_options: Mapping[str, str] | None = None) -> Table:
    """Opens one table by its directory: ``lakelog.open_table("./warehouse/db.db/t")``.

    ``path`` is ``<warehouse>/<database>.db/<table>``, a directory or a URI. ``storage_options`` are those of
    ``connect``. The table may belong to a warehouse whose names are in a database; ``connect`` is needed for a server
    that commits to its tables. Raises NotFound, InvalidRequest for any other path, and the errors of ``connect``.
    """
    warehouse, name = split_path(warehouse_text(path))
    return Lake(warehouse, storage_options=storage_options).table(".".join(map(quoted_name, name.parts)))


@guarded
def scan_polars(
    table: Place | Table, *, storage_options: Mapping[str, str] | None = None, **options: Any
) -> pl.LazyFrame:
    """A table as a polars LazyFrame: ``lakelog.scan_polars("./warehouse/db.db/t").filter(pl.col("id") == 5)``.

    ``table`` is a table, or the path of one as in ``open_table``. ``options`` are arguments of ``Table.scan``
    (``snapshot_id``, ``tag``, …). The frame is read when it is collected: polars asks for the columns that its query
    needs, and comparisons with values skip files. Raises the errors of ``open_table`` and ``Table.scan``.
    """
    opened = table if isinstance(table, Table) else open_table(table, storage_options=storage_options)
    return opened.scan(**options).to_lazy()


def _session_of(session: Any) -> Any:
    if hasattr(session, "sql") and hasattr(session, "conf"):
        return session
    raise InvalidRequest(
        f"connect() takes a warehouse (text or Path) and a SparkSession, not {type(session).__name__}: "
        f"write lakelog.connect('./warehouse')"
    )


def _once(name: str, before: Any, value: Any) -> Any:
    if before is not None:
        raise InvalidRequest(
            f"connect() got two values for '{name}', {shown_value(before)} and {shown_value(value)}: give one"
        )
    return value
