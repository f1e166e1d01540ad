"""System tables: what a table knows of itself, as tables (format sheet 13). One file and one line for each."""

from __future__ import annotations

from typing import Final

from lakelog.options.registry import Registry
from lakelog.table.read.base import TableScan

SYSTEM_TABLES: Final[Registry[TableScan]] = Registry(
    "system table",
    {
        "aggregation_fields": "lakelog.table.system.aggregation_fields:AggregationFields",
        "audit_log": "lakelog.table.system.audit_log:AuditLog",
        "binlog": "lakelog.table.system.binlog:Binlog",
        "branches": "lakelog.table.system.branches:Branches",
        "buckets": "lakelog.table.system.buckets:Buckets",
        "consumers": "lakelog.table.system.consumers:Consumers",
        "file_key_ranges": "lakelog.table.system.file_key_ranges:FileKeyRanges",
        "files": "lakelog.table.system.files:Files",
        "log": "lakelog.table.system.log:Log",
        "manifests": "lakelog.table.system.manifests:ManifestFiles",
        "options": "lakelog.table.system.options:TableOptions",
        "partitions": "lakelog.table.system.partitions:Partitions",
        "ro": "lakelog.table.system.read_optimized:ReadOptimized",
        "runs": "lakelog.table.system.runs:MaintenanceRuns",
        "schemas": "lakelog.table.system.schemas:AllSchemas",
        "snapshots": "lakelog.table.system.snapshots:AllSnapshots",
        "statistics": "lakelog.table.system.statistics:TableStatistics",
        "table_indexes": "lakelog.table.system.table_indexes:TableIndexes",
        "tags": "lakelog.table.system.tags:AllTags",
    },
)
"""System tables by the name behind ``$``; each is a scan made from the table that it tells of."""

UNREADABLE: Final = ("row_tracking", "file_indexes")
"""System tables of the format that lakelog does not have."""
