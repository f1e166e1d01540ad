"""The copy of a source into a table: checks first, one commit, counts compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.errors import AlreadyExists, CommitConflict, InvalidRequest, InvalidSchema
from lakelog.io.clock import now_ms
from lakelog.lake import Lake, Table
from lakelog.options.log import EMIT_MODE
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import fields_from_arrow
from lakelog.service.migration.columns import check_names
from lakelog.service.migration.source import KeyFaults, Source
from lakelog.table.model.log_options import canonical_options


@dataclass(frozen=True)
class Migration:
    """A checked copy: the target's definition, whether it has to be created, and the number of rows."""

    table: str
    definition: TableSchema
    is_new: bool
    rows: int


def plan_migration(
    lake: Lake,
    source: Source,
    table: str,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Migration:
    """Reads the source and checks that its rows fit the target; writes nothing.

    A missing table gets the columns and, by default (``partition_by`` = None), the partitions of the source. An empty
    table, such as one that an interrupted copy has left, keeps its definition. Raises AlreadyExists for a table with
    rows, InvalidRequest for rows that the primary key does not allow, InvalidSchema, InvalidOption, UnsupportedFeature.
    """
    is_new = not lake.table_exists(table)
    partitions = source.partition_by if partition_by is None else tuple(partition_by)
    table_options = canonical_options(options or {}, "table")
    check_names(source.schema.names, "the source")
    if is_new:
        definition = new_schema(
            fields_from_arrow(source.schema), primary_key, partitions, table_options, time_millis=now_ms()
        )
    else:
        definition = _empty(lake.table(table)).definition
        _check_same(table, definition, primary_key, partition_by, table_options)
        source.fit(definition)
        unknown = [name for name in definition.primary_keys if name not in source.schema.names]
        if unknown:
            raise InvalidSchema(
                f"the source has no column '{unknown[0]}', which is in the primary key of table {table}"
            )
    _check_keys(table, source.key_faults(definition.primary_keys), definition.primary_keys)
    return Migration(table, definition, is_new, source.count())


def run_migration(lake: Lake, source: Source, plan: Migration) -> Table:
    """Copies the rows into the files of the target in one commit, and compares the counts.

    A log gets no row. After a failure, a table that this call has created is dropped if it is empty, and another one
    is empty as before. Raises CommitConflict if the source has changed, or if another writer has written to the table
    meanwhile; and the errors of a write.
    """
    if plan.is_new:
        lake.create_table(
            plan.table,
            source.schema,
            primary_key=plan.definition.primary_keys,
            partition_by=plan.definition.partition_keys,
            options=plan.definition.options,
        )
    try:
        target = lake.table(plan.table)
        only_files = {EMIT_MODE.key: "file"} if target.logical.emits_log else {}
        rows = source.copy(lake, plan.table, only_files, plan.rows)
    except BaseException:
        if plan.is_new:
            _drop_if_empty(lake, plan.table)
        raise
    count = target.scan().count()
    if count != rows:
        raise CommitConflict(
            f"table {plan.table} has {count:,} rows, and {rows:,} were copied: another writer has written to it. "
            "Compare both tables"
        )
    return target


def _drop_if_empty(lake: Lake, table: str) -> None:
    """Drops the new table of a failed copy, unless it has rows, which another writer has committed."""
    if (
        lake.table_exists(table)
        and lake.table(table).latest_snapshot() is None
        and not lake.table(table).scan().count()
    ):
        lake.drop_table(table, if_exists=True, purge=True)


def _empty(table: Table) -> Table:
    if table.latest_snapshot() is not None or table.scan().count():
        raise AlreadyExists(f"table {table.name} has rows or had some: name another table, or drop it first")
    return table


def _check_same(
    table: str,
    definition: TableSchema,
    primary_key: Sequence[str],
    partition_by: Sequence[str] | None,
    options: Mapping[str, str],
) -> None:
    """Raises InvalidRequest if the definition of an existing table is not the wanted one."""
    facts: dict[str, tuple[Any, Any]] = {
        f"option '{key}'": (value, definition.options.get(key)) for key, value in options.items()
    }
    if primary_key:
        facts["primary key"] = (tuple(primary_key), definition.primary_keys)
    if partition_by is not None:
        facts["partition columns"] = (tuple(partition_by), definition.partition_keys)
    for what, (asked, has) in facts.items():
        if asked != has:
            raise InvalidRequest(
                f"table {table} exists, and its {what} is {has!r}, not {asked!r}: drop the table first"
            )


def _check_keys(table: str, faults: KeyFaults, keys: Sequence[str]) -> None:
    key = ", ".join(keys)
    if faults.null_rows:
        raise InvalidRequest(
            f"{faults.null_rows:,} rows have NULL in the primary key ({key}) of table {table}: choose other columns, "
            "or filter the source. Nothing was written"
        )
    if faults.duplicate_keys:
        examples = "; ".join(", ".join(f"{name} = {value!r}" for name, value in row.items()) for row in faults.examples)
        raise InvalidRequest(
            f"{faults.duplicate_keys:,} keys ({key}) of table {table} have several rows, such as {examples}: choose "
            "other columns, or remove the duplicates from the source. Nothing was written"
        )
