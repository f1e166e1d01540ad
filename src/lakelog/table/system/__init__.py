"""System tables: the metadata of a table as tables (format sheet 13). One class and one line each."""

from __future__ import annotations

from typing import Final

from lakelog.options.registry import Registry
from lakelog.table.read.base import TableScan

SYSTEM_TABLES: Final[Registry[TableScan]] = Registry(
    "system table",
    {
        "aggregation_fields": "lakelog.table.system.schema:AggregationFields",
        "audit_log": "lakelog.table.system.rows:AuditLog",
        "binlog": "lakelog.table.system.rows:Binlog",
        "branches": "lakelog.table.system.history:Branches",
        "buckets": "lakelog.table.system.files:Buckets",
        "consumers": "lakelog.table.system.activity:Consumers",
        "file_key_ranges": "lakelog.table.system.files:FileKeyRanges",
        "files": "lakelog.table.system.files:Files",
        "iceberg": "lakelog.table.system.history:IcebergSnapshots",
        "log": "lakelog.table.system.activity:Log",
        "manifests": "lakelog.table.system.files:ManifestFiles",
        "options": "lakelog.table.system.schema:TableOptions",
        "partitions": "lakelog.table.system.files:Partitions",
        "rejected": "lakelog.table.system.activity:Rejected",
        "ro": "lakelog.table.system.rows:ReadOptimized",
        "runs": "lakelog.table.system.activity:MaintenanceRuns",
        "schemas": "lakelog.table.system.schema:AllSchemas",
        "snapshots": "lakelog.table.system.history:AllSnapshots",
        "statistics": "lakelog.table.system.files:TableStatistics",
        "table_indexes": "lakelog.table.system.files:TableIndexes",
        "tags": "lakelog.table.system.history:AllTags",
        "view": "lakelog.table.system.views:ViewSources",
    },
)
"""System tables by the name after ``$``; each is a scan made from its base table."""

UNREADABLE: Final = ("row_tracking", "file_indexes")
"""System tables of the format that lakelog does not support."""
