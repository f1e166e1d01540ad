"""The notebook view of a table."""

from __future__ import annotations

from lakelog.options.notebook import rows_html, time_text
from lakelog.sql.runtime.describe import describe
from lakelog.table.model.dynamic_table import DynamicTable


def table_html(table: DynamicTable) -> str:
    """Name, keys, stores and newest snapshot, and the columns; reads no row."""
    schema, log, snapshot = table.schema, table.log, table.store.latest_snapshot()
    facts = {
        "primary key": ", ".join(schema.primary_keys),
        "partitioned by": ", ".join(schema.partition_keys),
        "buckets": str(schema.num_buckets),
        "log": "" if log is None else f"{log.system}, {log.topic}",
    }
    if snapshot is not None:
        count = snapshot.total_record_count
        records = "" if count is None else f", {count:,} records"
        facts["snapshot"] = f"{snapshot.id}, {time_text(snapshot.time_millis)}{records}"
    shown = " · ".join(f"{name}: {value}" for name, value in facts.items() if value)
    return rows_html(f"{table.name} · {shown}", ("column", "type", "comment"), describe(table))
