"""Runs simple statements on rows in this process: INSERT … VALUES, UPDATE, DELETE, MERGE of Arrow rows, SELECT.

Called without PySpark or Java. ``NeedsSpark`` is the answer to a statement that is not certain to mean the same as in
Spark. Rows pass as Arrow batches; a MERGE holds its source and the rows that match it in memory.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakelog.catalog.base import Identifier
from lakelog.filestore.skipping.predicate import In, Predicate
from lakelog.io.names import new_uuid
from lakelog.options.log import READ_MODE, SCAN_DATA_FILES
from lakelog.options.table import MISSING_AS_NULL
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import DataField, DataType
from lakelog.sql.dml.merge import Merge
from lakelog.sql.dml.row_changes import DELETE, RowChange, RowsWhere
from lakelog.sql.embedded.database import EmbeddedDatabase
from lakelog.sql.embedded.select import check_size, local_select
from lakelog.sql.local.expressions import column_of, condition_of, literal_of, parsed, values_of
from lakelog.sql.local.stored import stored
from lakelog.sql.query.names import check_expression
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.state.spark_functions import NeedsSpark
from lakelog.table.maintenance.retention import expire_best_effort
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts, row_counts
from lakelog.table.read.file_scan import Scan
from lakelog.table.rejected.rows import by_constraints
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite
from lakelog.table.write.replaced_rows import files_alone
from lakelog.table.write.table_writer import TableWriter

_EXPLAIN: Final = re.compile(r"^\s*explain\s+((extended|formatted|codegen|cost)\s+)?", re.IGNORECASE)
_KEYS_IN_FILTER = 10_000
"""Maximum number of keys of a MERGE's source by which files are pruned."""


class LocalEngine:
    """The part of ``Engine`` that needs no Spark; a missing method means that Spark runs it."""

    def __init__(self, tables: CatalogTables, zone: Callable[[], str | None], most: Callable[[], int | None]) -> None:
        """``most`` returns the bytes of files and results that Spark takes over, None without a limit."""
        self._tables, self._database, self._most = tables, EmbeddedDatabase(zone), most
        self._frames: dict[str, pa.Table] = {}

    @contextmanager
    def named(self, frames: Mapping[str, pa.Table]) -> Iterator[dict[str, str]]:
        """Names of Arrow rows for the duration of a block."""
        names = {name: f"lakelog_frame_{new_uuid().replace('-', '')}" for name in frames}
        self._frames |= {names[name]: rows for name, rows in frames.items()}
        try:
            yield names
        finally:
            for view in names.values():
                self._frames.pop(view, None)

    def close(self) -> None:
        """Ends the database of queries."""
        self._database.close()

    def check_assignments(self) -> None:
        """There are no settings."""

    def checks_casts(self) -> bool:
        """True: values are checked when they are written."""
        return True

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        """Nothing: values get their types here when they are written."""
        return {}

    def run_query(self, plan: QueryPlan) -> pa.Table:
        """The rows of a query. Raises NeedsSpark, NotInstalled without DuckDB, and the errors of the query."""
        text, most = _EXPLAIN.sub("", plan.text), self._most()
        if most is not None and importlib.util.find_spec("duckdb") is None:
            raise NeedsSpark("a query without DuckDB (pip install 'lakelog[sql]')")
        query = local_select(replace(plan, text=text), self._tables)
        if most is not None:
            check_size(query.size, most)
        if text == plan.text:
            return query.rows(self._database, most)
        explained = query.explained(self._database)
        return pa.table({"plan": [explained if plan.write is None else f"== Write ==\n{plan.write}\n\n{explained}"]})

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: Mapping[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
        match: FieldMatch = FieldMatch.POSITION,
    ) -> RowCounts:
        """Writes rows of literals, or the rows of a simple SELECT with the types of the table. Raises NeedsSpark.

        ``match`` makes no difference, because structs have the types of the table.
        """
        target = self._tables.open(table).with_hints(options)
        target.check_rows_writable()
        if overwrite or partition or target.reads_log:
            raise NeedsSpark("INSERT OVERWRITE" if overwrite else "INSERT with PARTITION or a log")
        fields = [target.schema.field(name) for name in columns or target.schema.field_names]
        tree = parsed(plan.text)
        schema = arrow_schema(fields)
        if isinstance(tree, exp.Values):
            rows = _literal_rows(tree, fields)
        else:
            rows = stored(self.run_query(plan), schema, target.name)
        with TableWriter(by_constraints(target.with_hints(MISSING_AS_NULL)), may_reject=True) as writer:
            if len(rows):
                writer.write(rows)
        return writer.counts

    def columns_of(self, plan: QueryPlan, allow_null: bool = False) -> Sequence[tuple[str, DataType]]:
        """(name, type) of a query's columns without row kinds. Raises NeedsSpark, and the errors of the query."""
        return local_select(plan, self._tables).columns(allow_null)

    def change_rows(self, table: Identifier, change: RowChange, options: Mapping[str, str]) -> RowCounts:
        """Does an UPDATE, DELETE or MERGE. Raises NeedsSpark, CommitConflict for files that were replaced meanwhile."""
        target = self._tables.open(table).with_hints({**options, READ_MODE.key: "file"})
        target.check_rows_writable()
        if isinstance(change, RowsWhere):
            condition = condition_of(change.clause.condition, target.schema, change.target.alias)
            values = values_of(change.clause.values, target.schema, change.target.alias)
            self._check_size(Scan(target.all_rows, filter=condition))
            if fixed := set(values) & {*change.target.keys, *change.target.newer}:
                raise NeedsSpark(f"UPDATE of the key column '{min(fixed)}'")
            if change.target.keys:
                return _write(target, _changes(target, change, condition, values))
            return _rewrite(target, change, condition, values)
        if isinstance(change, Merge) and change.target.keys and not change.extra:
            return _write(target, self._merged(target, change))
        raise NeedsSpark("MERGE into a table without a primary key, or with WHEN NOT MATCHED BY SOURCE")

    def _check_size(self, scan: Scan) -> None:
        """Raises NeedsSpark if the data files of a read are larger than this process may read."""
        most = self._most()
        if most is not None:
            check_size(sum(split.file_size for split in scan.plan()), most)

    def _merged(self, target: DynamicTable, change: Merge) -> list[pa.Table]:
        """The changes of a MERGE whose condition is that all columns of the primary key are equal."""
        clauses = (*change.matched, *change.missing)
        words = change.source.split()  # name [AS alias]
        source = self._frames.get(words[0]) if len(words) <= 3 else None
        if source is None:
            raise NeedsSpark("MERGE of a table or a query")
        names = {change.target.alias: target.schema.field_names, change.alias: source.column_names}
        check_expression(change.on, names, f"MERGE INTO {target.name}")
        if len(change.matched) > 1 or len(change.missing) > 1 or any(c.condition for c in clauses):
            raise NeedsSpark("MERGE with several clauses or with a condition")
        rows = _typed_source(source, target.schema)
        keys = list(target.schema.primary_keys)
        if _equal_keys(change, target.schema) != set(keys) or not set(keys) <= set(rows.column_names):
            raise NeedsSpark(f"MERGE on another condition than the primary key ({', '.join(keys)})")
        if rows.select(keys).group_by(keys).aggregate([]).num_rows < len(rows) or any(rows[k].null_count for k in keys):
            raise NeedsSpark(
                "MERGE of two rows with one key, or of NULL in a key"
            )  # which row of a key wins, and the error for NULL, are Spark's
        scan = _scan_of_keys(target, rows, keys)
        self._check_size(scan)
        values = pc.unique(rows[keys[0]])
        parts = [b.filter(pc.is_in(b.column(keys[0]), values)) for b in scan.to_batches()]
        rows_there = pa.Table.from_batches(parts, scan.schema)
        pairs = _numbered(rows_there, keys, "_old").join(_numbered(rows, keys, "_new"), keys, join_type="inner")
        old, new = rows_there.take(pairs["_old"]), rows.take(pairs["_new"])
        changes: list[pa.Table] = []
        for clause in change.matched:
            if clause.action == DELETE:
                changes.append(_of_kind(old, "-D"))
                continue
            values = _merge_values(clause.values, target.schema, change, has_old=True)
            if set(values) & set(change.target.newer):
                raise NeedsSpark("MERGE that sets a sequence field")
            sides = {name: value for name, value in values.items() if name not in keys or value != ("s", name)}
            if set(sides) & set(keys):
                raise NeedsSpark("MERGE that sets a column of the primary key")
            if change.target.emits_before:
                changes.append(_of_kind(old, "-U"))
            changes.append(_of_kind(_assembled(target.schema, sides, old, new), "+U"))
        for clause in change.missing:
            values = _merge_values(clause.values, target.schema, change, has_old=False)
            left = rows.filter(
                pc.invert(pc.is_in(pa.array(range(len(rows)), pa.int64()), pairs["_new"].combine_chunks()))
            )
            changes.append(_of_kind(_assembled(target.schema, values, None, left), "+I"))
        return changes


def _literal_rows(tree: exp.Values, fields: list[DataField]) -> pa.Table:
    rows = [item.expressions if isinstance(item, exp.Tuple) else [item] for item in tree.expressions]
    if tree.args.get("alias") or any(len(row) != len(fields) for row in rows):
        raise NeedsSpark("VALUES with names")
    if any(len({type(node) for node in column} & {exp.Cast, exp.Literal}) > 1 for column in zip(*rows, strict=True)):
        raise NeedsSpark("VALUES of several types in a column")  # date'…' beside '…' is an error in Spark
    schema = arrow_schema(fields)
    columns = [
        pa.array([literal_of(row[at], field) for row in rows], schema.field(at).type) for at, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(columns, names=schema.names)


def _changes(
    target: DynamicTable, change: RowsWhere, condition: Predicate | None, values: Mapping[str, Any]
) -> Iterator[pa.Table]:
    """The changes of the rows of a table with a primary key that match."""
    for batch in Scan(target.all_rows, filter=condition).to_batches():
        old = pa.Table.from_batches([batch])
        if change.clause.action == DELETE:
            yield _of_kind(old, "-D")
            continue
        if change.target.emits_before:
            yield _of_kind(old, "-U")
        yield _of_kind(_with_values(old, values), "+U")


def _rewrite(
    target: DynamicTable, change: RowsWhere, condition: Predicate | None, values: Mapping[str, Any]
) -> RowCounts:
    """Replaces the files of a table without a primary key that may have matching rows."""
    names, matched = files_to_rewrite(target, condition), 0
    if not names:
        return row_counts()
    writer = new_uuid()
    task = TaskWriter(files_alone(target), writer, 0, lane=0, replaces=True)
    try:
        for batch in Scan(target.with_hints({SCAN_DATA_FILES.key: ",".join(names)})).to_batches():
            rows = pa.Table.from_batches([batch])
            matches = pc.scalar(True) if condition is None else condition.to_arrow(rows.schema)
            is_match = pc.coalesce(matches, pc.scalar(False))
            kept = rows.filter(~is_match)
            matched += len(rows) - len(kept)
            for part in kept.to_batches():
                task.write(part, are_new=False)
            if change.clause.action != DELETE:
                for part in _with_values(rows.filter(is_match), values).to_batches():
                    task.write(part)
        commit_rewrite(target, writer, [task.finish()], names)
    except BaseException:
        task.close()
        raise
    expire_best_effort(target)
    return row_counts(deleted=matched) if change.clause.action == DELETE else row_counts(updated=matched)


def _with_values(rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    columns = [
        rows[field.name] if field.name not in values else _column(rows, values[field.name], field.type)
        for field in rows.schema
    ]
    return pa.Table.from_arrays(columns, names=rows.column_names)


def _column(rows: pa.Table, value: Any, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if isinstance(value, DataField):
        return rows[value.name]
    return pa.repeat(pa.scalar(value, kind), len(rows)) if value is not None else pa.nulls(len(rows), kind)


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(ROW_KIND_COLUMN, pa.repeat(pa.scalar(kind), len(rows)))


def _write(target: DynamicTable, changes: Iterable[pa.Table]) -> RowCounts:
    with TableWriter(target) as writer:
        for rows in changes:
            if len(rows):
                writer.write(rows)
    return writer.counts


def _typed_source(source: pa.Table, schema: TableSchema) -> pa.Table:
    """The source's columns that the table has, in its types; only conversions that change no value."""
    kinds = {field.name.lower(): field for field in arrow_schema(schema.fields)}
    columns, names = [], []
    for name, column in zip(source.column_names, source.columns, strict=True):
        field = kinds.get(name.lower())
        if field is None or field.name in names:
            raise NeedsSpark(f"MERGE of rows with a column '{name}' that the table lacks")
        same = column.type == field.type or (_is_text(column.type) and _is_text(field.type))
        if not same and not (pa.types.is_integer(column.type) and pa.types.is_integer(field.type)):
            raise NeedsSpark(f"a value of type {column.type} in column '{field.name}' of type {field.type}")
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowInvalid:
            raise NeedsSpark(f"a value outside of column '{field.name}' of type {field.type}") from None
        names.append(field.name)
    return pa.Table.from_arrays(columns, names=names)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _equal_keys(change: Merge, schema: TableSchema) -> set[str]:
    """The columns that a condition ``t.a = s.a AND …`` compares."""
    tree, names = parsed(change.on), set()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        while isinstance(part, exp.Paren):
            part = part.this
        if not isinstance(part, exp.EQ):
            raise NeedsSpark(f"the condition {part.sql('spark')} of MERGE")
        sides = {side.table.lower(): side for side in (part.this, part.expression) if isinstance(side, exp.Column)}
        both = [sides.get(alias.lower()) for alias in (change.target.alias, change.alias)]
        if None in both or len({side.name.lower() for side in both if side is not None}) != 1:
            raise NeedsSpark(f"the condition {part.sql('spark')} of MERGE")
        column = column_of(both[0], schema, change.target.alias) if both[0] is not None else None
        names.add("" if column is None else column.name)
    return names


def _scan_of_keys(target: DynamicTable, rows: pa.Table, keys: list[str]) -> Scan:
    """The read of the files that may have one of the values of the first key column."""
    values = pc.unique(rows[keys[0]])
    few = len(values) <= _KEYS_IN_FILTER
    return Scan(target.all_rows, filter=In(keys[0], tuple(values.to_pylist())) if few else None)


def _numbered(rows: pa.Table, keys: list[str], name: str) -> pa.Table:
    return rows.select(keys).append_column(name, pa.array(range(len(rows)), pa.int64()))


def _merge_values(texts: Mapping[str, str], schema: TableSchema, change: Merge, has_old: bool) -> dict[str, Any]:
    """New values by column: a literal, or (side, column) with side ``t`` or ``s``."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        column, node = schema.field(name), parsed(text)
        if isinstance(node, exp.Column):
            side = {change.alias.lower(): "s", change.target.alias.lower(): "t"}.get(node.table.lower())
            other = column_of(node, schema, node.table)
            if side is None or other is None or (side == "t" and not has_old):
                raise NeedsSpark(f"the value {text} in column '{name}'")
            if other.type.with_nullable(True) != column.type.with_nullable(True):
                raise NeedsSpark(f"the value {text} in column '{name}'")
            values[name] = (side, other.name)
        else:
            values[name] = literal_of(node, column)
    return values


def _assembled(schema: TableSchema, values: Mapping[str, Any], old: pa.Table | None, new: pa.Table) -> pa.Table:
    columns, target = [], arrow_schema(schema.fields)
    for field in target:
        value = values.get(field.name)
        if isinstance(value, tuple):
            side = new if value[0] == "s" else old
            if side is None or value[1] not in side.column_names:
                raise NeedsSpark(f"the value of column '{field.name}'")
            columns.append(side[value[1]])
        elif field.name in values or old is None:
            columns.append(_column(new, value, field.type))
        else:
            columns.append(old[field.name])
    return pa.Table.from_arrays(columns, names=target.names)
