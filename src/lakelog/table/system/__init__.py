"""System tables: the metadata of a table as tables (format sheet 13). One file and one line for each."""

from __future__ import annotations

from typing import Final

from lakelog.options.registry import Registry
from lakelog.table.read.base import TableScan

SYSTEM_TABLES: Final[Registry[TableScan]] = Registry(
    "system table",
    {
        "aggregation_fields": "lakelog.table.system.schema.aggregation_fields:AggregationFields",
        "audit_log": "lakelog.table.system.rows.audit_log:AuditLog",
        "binlog": "lakelog.table.system.rows.binlog:Binlog",
        "branches": "lakelog.table.system.history.branches:Branches",
        "buckets": "lakelog.table.system.files.buckets:Buckets",
        "consumers": "lakelog.table.system.activity.consumers:Consumers",
        "file_key_ranges": "lakelog.table.system.files.file_key_ranges:FileKeyRanges",
        "files": "lakelog.table.system.files.files:Files",
        "iceberg": "lakelog.table.system.history.iceberg:IcebergSnapshots",
        "log": "lakelog.table.system.activity.log:Log",
        "manifests": "lakelog.table.system.files.manifests:ManifestFiles",
        "options": "lakelog.table.system.schema.options:TableOptions",
        "partitions": "lakelog.table.system.files.partitions:Partitions",
        "rejected": "lakelog.table.system.activity.rejected:Rejected",
        "ro": "lakelog.table.system.rows.read_optimized:ReadOptimized",
        "runs": "lakelog.table.system.activity.runs:MaintenanceRuns",
        "schemas": "lakelog.table.system.schema.schemas:AllSchemas",
        "snapshots": "lakelog.table.system.history.snapshots:AllSnapshots",
        "statistics": "lakelog.table.system.files.statistics:TableStatistics",
        "table_indexes": "lakelog.table.system.files.table_indexes:TableIndexes",
        "tags": "lakelog.table.system.history.tags:AllTags",
    },
)
"""System tables by the name after ``$``; each is a scan made from its base table."""

UNREADABLE: Final = ("row_tracking", "file_indexes")
"""System tables of the format that lakelog does not support."""
