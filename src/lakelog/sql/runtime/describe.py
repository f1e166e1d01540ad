"""The result of DESCRIBE: columns, keys, the locations of both stores and the contents of the log."""

from __future__ import annotations

from lakelog.merge.table_rules import log_content
from lakelog.options.constraints import constraints_of
from lakelog.options.log import CHANGES, INPUT, shown_value
from lakelog.options.notebook import time_text
from lakelog.options.option import Options
from lakelog.options.secrets import without_password
from lakelog.options.view import VIEW
from lakelog.sql.syntax.type_parser import type_text
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import scan_of
from lakelog.table.staging.backfill import catch_up_of, is_backfilling
from lakelog.table.views.definition import ViewDefinition

Rows = list[tuple[str, str, str]]


def describe(table: DynamicTable, extended: bool = False) -> Rows:
    """(column, type, comment) rows; with ``extended`` also keys, stores and options, after an empty row."""
    columns = scan_of(table).row_schema.fields if table.view else table.schema.fields
    rows: Rows = [(f.name, type_text(f.type), f.description or "") for f in columns]
    if not extended:
        return rows
    if table.view:
        return [*rows, ("", "", ""), ("# system table", "", ""), ("name", table.name, "")]
    schema, log, snapshot = table.schema, table.log, table.store.latest_snapshot()
    definition = ViewDefinition.of(schema)
    rows += [("", "", ""), ("# table" if definition is None else "# materialized view", "", "")]
    rows.append(("name", table.name, ""))
    if definition is not None:
        rows.append(("query", definition.query, f"names without a database are in {definition.database}"))
        rows.append(("sources", ", ".join(definition.sources), ""))
        rows.append(("refresh", definition.refreshes, "suspended" if definition.suspended else ""))
    rows.append(("location", table.path, ""))
    rows.append(("primary key", ", ".join(schema.primary_keys), ""))
    rows.append(("partitioned by", ", ".join(schema.partition_keys), ""))
    rows.append(("buckets", str(schema.num_buckets), ""))
    rows.append(("snapshot", "none" if snapshot is None else str(snapshot.id), ""))
    rows.append(
        (
            "log store",
            "none" if log is None else f"{log.system}, topic {log.topic} at {without_password(log.address)}",
            "",
        )
    )
    if log is not None:
        content = log_content(Options(schema.options))
        rows.append(("log content", content, _CONTENTS[content]))
        rows.append(("changelog mode", table.changelog_mode, _MODES[table.changelog_mode]))
        rows += _catch_up(table)
    if constraints := constraints_of(schema.options):
        rows += [("", "", ""), ("# constraints", "", "")]
        rows += [(constraint.name, constraint.to_text(), "") for constraint in constraints]
    rows += [("", "", ""), ("# options", "", "")]
    rows += [(k, shown_value(k, v), "") for k, v in sorted(schema.options.items()) if k != VIEW.key]
    return rows


def _catch_up(table: DynamicTable) -> Rows:
    state = catch_up_of(table)
    if state is not None:
        return [
            (
                "log written since",
                time_text(state.time_ms),
                f"writer {state.writer} had caught up in epoch {state.epoch}",
            )
        ]
    return [("log written since", "not yet", "rows are written to the files only")] if is_backfilling(table) else []


_CONTENTS = {
    INPUT: "the rows as they were written, at once",
    CHANGES: "the changes of the merged table, after each commit",
}
_MODES = {
    "all": "the log holds every change with its before-image",
    "upsert": "the log holds the newest row of a key, without before-images",
}
