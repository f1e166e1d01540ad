"""A table as a notebook shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from lakelog.lake.describe import describe
from lakelog.table.model.dynamic_table import DynamicTable


def table_html(table: DynamicTable) -> str:
    """Name, keys, stores and newest snapshot, and the columns; no row is read."""
    schema, log, snapshot = table.schema, table.log, table.store.latest_snapshot()
    facts = {
        "primary key": ", ".join(schema.primary_keys),
        "partitioned by": ", ".join(schema.partition_keys),
        "buckets": str(schema.num_buckets),
        "log": "" if log is None else f"{log.system}, {log.topic}",
    }
    if snapshot is not None:
        at = datetime.fromtimestamp(snapshot.time_millis / 1000, UTC).isoformat(" ", "seconds")
        facts["snapshot"] = f"{snapshot.id}, {at}, {snapshot.total_record_count:,} records"
    said = " · ".join(f"{escape(name)}: <b>{escape(value)}</b>" for name, value in facts.items() if value)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in column)}</tr>" for column in describe(table))
    head = "".join(f"<th>{name}</th>" for name in ("column", "type", "comment"))
    return f"<div><b>{escape(table.name)}</b><br>{said}<table><tr>{head}</tr>{rows}</table></div>"
