"""Support for UPDATE, DELETE and MERGE: tables whose merge engine matches the meaning of the statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakelog.errors import UnsupportedFeature
from lakelog.merge.table_rules import engine_class
from lakelog.options.fields import split_names
from lakelog.options.table import (
    IGNORE_DELETE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_ORDER,
)
from lakelog.table.model.dynamic_table import DynamicTable


@dataclass(frozen=True)
class DmlSupport:
    """The row-change support of a table, for one use of it.

    ``emits_log``: the log gets each changed row; ``emits_before``: also the previous row. ``newer`` has the sequence
    fields, with the comparison that a row must satisfy against the one it replaces.
    """

    emits_log: bool
    emits_before: bool
    newer: Mapping[str, str] = field(default_factory=dict)


def changeable(table: DynamicTable, actions: Iterable[str]) -> DmlSupport:
    """The form of changes for UPDATE, DELETE and MERGE. Raises as ``check_row_changes``."""
    for action in actions:
        check_row_changes(table, action)
    before = table.emits_changelog or (table.emits_log and table.changelog_mode == "all")
    fields = split_names(table.options.get_typed(SEQUENCE_FIELD)) if table.schema.is_keyed else ()
    sign = "<=" if table.options.need(SEQUENCE_FIELD_ORDER) == "descending" else ">="
    return DmlSupport(table.emits_log and table.schema.is_keyed, before, dict.fromkeys(fields, sign))


def check_row_changes(table: DynamicTable, action: str) -> None:
    """Raises UnsupportedFeature if a statement would have another effect on this table with a primary key.

    Called before UPDATE, DELETE and MERGE; ``action`` is UPDATE, DELETE or INSERT. They rewrite rows of the keys. A row
    replaces the old one only if the newest row wins; other engines would add to it or drop it. A delete removes the key
    only if the newest row wins, or with the remove option of an engine that has one.
    """
    table.check_rows_writable()
    schema, engine, rules = table.schema, table.options.need(MERGE_ENGINE), engine_class(table.options)
    if not schema.is_keyed:
        return
    if ROWKIND_FIELD.key in schema.options:
        raise UnsupportedFeature(
            f"{action} of table {table.name} is not supported: its column '{schema.options[ROWKIND_FIELD.key]}' "
            f"holds the kind of each row ('{ROWKIND_FIELD.key}'); INSERT rows of the kind wanted"
        )
    if action == "UPDATE" and not rules.newest_wins:
        raise UnsupportedFeature(
            f"UPDATE of table {table.name} is not supported: its merge engine '{engine}' merges a new row with the "
            "old one. INSERT rows that produce the wanted values"
        )
    if action != "DELETE":
        return
    removes = rules.remove_option
    if table.options.need(IGNORE_DELETE):
        raise UnsupportedFeature(
            f"DELETE of rows of table {table.name} is not supported: '{IGNORE_DELETE.key}' = 'true' drops deletes. "
            "Copy the rows to a table without this option"
        )
    if not rules.newest_wins and (removes is None or not table.options.need(removes)):
        how = "" if removes is None else f" unless it was created with '{removes.key}' = 'true'"
        raise UnsupportedFeature(
            f"DELETE of rows of table {table.name} is not supported: its merge engine '{engine}' removes no keys{how}"
        )
