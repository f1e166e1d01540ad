"""What histories run, and what they leave out for a reason: no entry of a registry is in neither."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import model.actions  # noqa: F401 - registers the actions
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.options.constraints import ACTIONS as CONSTRAINT_ACTIONS
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.statements import STATEMENTS
from lakelog.table.health.actions import KINDS
from lakelog.table.system import SYSTEM_TABLES
from lakelog.table.write.table_writer import TableWriter
from model.action import ACTIONS
from model.readings import READINGS

_SHOWS = "it shows metadata, and changes nothing"
_SPARK = "it needs Spark: tests/spark"
_CATALOG = "it is about a catalog or a database, not the rows of a table: tests/contract/test_catalog.py"
_FIGURES = "its rows are figures of files or jobs, not of the table"

LEFT_OUT: Final = {
    **dict.fromkeys(
        [
            f"statement:{name}"
            for name in STATEMENTS
            if name.startswith(("SHOW", "DESC")) and "HISTORY" not in name or name.startswith("EXPLAIN")
        ],
        _SHOWS,
    ),
    **dict.fromkeys(
        ["statement:DESCRIBE HISTORY", "statement:DESC HISTORY", "Table.describe", "Table.definition"], _SHOWS
    ),
    **dict.fromkeys(
        [
            *(f"statement:{verb} {noun}" for verb in ("CREATE", "ALTER", "DROP") for noun in ("DATABASE", "SCHEMA")),
            *("statement:CREATE CATALOG", "statement:DROP CATALOG", "statement:ALTER NAMESPACE", "statement:USE"),
            *("statement:SET CATALOG", "Lake.add_catalog", "Lake.drop_catalog", "Lake.list_catalogs"),
            *("Lake.create_database", "Lake.drop_database"),
        ],
        _CATALOG,
    ),
    **dict.fromkeys(
        [
            *("statement:CREATE TABLE AS", "statement:REPLACE TABLE AS", "statement:MERGE WITH SCHEMA"),
            *("statement:(anything else)", "Lake.attach", "Lake.spark", "Lake.executor", "Lake.lookup_join"),
            *(
                "Lake.lookup_stats",
                "Lake.read_realtime",
                "Lake.read_stream",
                "Lake.write_realtime",
                "Lake.write_stream",
            ),
            "Table.to_spark",
        ],
        _SPARK,
    ),
    **dict.fromkeys(
        [
            *("statement:CREATE OR REPLACE", "statement:REPLACE TABLE", "statement:CREATE EXTERNAL TABLE"),
            *("statement:CREATE TABLE LIKE", "Lake.create_table", "statement:DROP TABLE", "Lake.drop_table"),
        ],
        "it makes or ends a table, and the history with it: tests/contract/test_identity.py",
    ),
    **dict.fromkeys(
        [
            *(f"system table:{name}" for name in ("buckets", "consumers", "file_key_ranges", "files", "manifests")),
            *(f"system table:{name}" for name in ("options", "rejected", "runs", "statistics", "table_indexes")),
            *("system table:aggregation_fields", "system table:schemas", "Table.runs", "Table.statistics", "Table.log"),
        ],
        _FIGURES,
    ),
    **dict.fromkeys(
        ["Table.logical", "Table.name", "Table.options", "Table.path", "Table.primary_keys", "Table.schema"],
        "it is a value of the handle",
    ),
    **dict.fromkeys(["TableWriter.counts"], "tests/unit/table/test_row_counts.py"),
    **dict.fromkeys(
        ["statement:ALTER MATERIALIZED VIEW", "statement:CREATE OR REPLACE MATERIALIZED"],
        "tests/unit/sql/test_materialized_views.py, and histories of views: tests/property/test_views.py",
    ),
    "Table.to_duckdb": "it is a scan in another library: tests/unit/lake/test_table_object.py",
    "Table.to_pandas": "it is Table.to_arrow in another library: tests/unit/lake/test_table_object.py",
    "Table.mirror": "it needs Kafka: tests/integration/test_mirror.py",
    "Lake.cut": "the table of a history belongs to no group: tests/unit/table/test_cuts.py",
    "Lake.ingest": "it needs PostgreSQL: tests/contract/test_ingest.py",
    "procedure:reset_consumer": "positions of named readers, which no row depends on",
    "procedure:create_tag_from_timestamp": "the states of a history are milliseconds apart",
    "procedure:rollback_to_watermark": "no table of a history has a watermark",
    "procedure:expire_partitions": "partitions of a history have no age: tests/unit/table/test_partition_expiry.py",
    "Table.tail_async": "it is Table.tail in an event loop: tests/unit/table/test_async_tail.py",
}
"""Entry → why no history runs it. True reasons: it cannot change rows, or another test owns it."""


def surface() -> Iterator[str]:
    """Every entry that a user can reach."""
    yield from (f"statement:{name}" for name in STATEMENTS)
    yield from (f"procedure:{name}" for name in PROCEDURES)
    yield from (f"system table:{name}" for name in SYSTEM_TABLES)
    yield from (f"optimizer:{name}" for name in KINDS)
    yield from (f"constraint:{name}" for name in ("ADD", "DROP", *CONSTRAINT_ACTIONS))
    for kind in (Lake, Table, TableWriter):
        yield from (f"{kind.__name__}.{name}" for name, _ in inspect.getmembers(kind) if not name.startswith("_"))


def covered() -> set[str]:
    """Every entry that an action or a reading runs."""
    by_actions = {entry for action in ACTIONS for entry in action.covers}
    return by_actions | {entry for _, covers in READINGS.values() for entry in covers}
