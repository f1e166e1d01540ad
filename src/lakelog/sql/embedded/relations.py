"""The tables of a query as relations of DuckDB: data files that DuckDB reads itself, and streams of our reads.

A file without a merge, of columns with the same values in every reader, is read by DuckDB. It then applies the filters
of joins to row groups, too. All other rows come from the table's own read, with the columns and the filter of the
query.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakelog.filestore.read.native_files import NativeFile, Sources, is_float, pick_native
from lakelog.filestore.read.plan import Split
from lakelog.io import scheme_of
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import DataField
from lakelog.sql.embedded.types import BIGINT, OTHER, Kind, kind_of
from lakelog.sql.query.predicate_parser import filtered
from lakelog.sql.runtime.query_plan import COUNTED, Source
from lakelog.state.embedded_sql import quoted
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import scan_of
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan

_PATTERN_SIGNS: Final = frozenset("{}[]*?")
"""Signs in a path that DuckDB reads as a pattern."""
_COUNTS: Final = pa.field(COUNTED, pa.int64())


class RowStream:
    """Rows for DuckDB, which may read them several times; keeps the error of a read, which DuckDB turns into text."""

    def __init__(self, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._schema, self._read = schema, read
        self.error: BaseException | None = None

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read()
        except BaseException as why:
            self.error = why
            raise


@dataclass
class Relation:
    """One read of a query: ``select`` is its text for DuckDB, ``streams`` are the rows that it names.

    ``directory`` has the files that DuckDB reads, "" if there are none; ``size`` are the bytes of all files.
    ``is_counted``: there is also a column with the number of rows for each value of the others.
    ``explained`` says what is read and how, for a person.
    """

    name: str
    fields: tuple[DataField, ...]
    select: str
    streams: dict[str, RowStream] = field(default_factory=dict)
    directory: str = ""
    size: int = 0
    is_counted: bool = False
    explained: str = ""

    @property
    def kinds(self) -> dict[str, Kind]:
        """Column in lower case → its type."""
        result = {f.name.lower(): kind_of(f.type) for f in self.fields}
        return {**result, COUNTED: BIGINT} if self.is_counted else result


def relation_of(source: Source, table: DynamicTable) -> Relation:
    """The read of one reference. Raises the errors of the table's reads."""
    scan = filtered(scan_of(table.with_hints(source.options)), source.filter)
    if source.counts:
        return _counted(source, scan)
    scan = scan.select(source.columns)
    if source.limit is not None:
        scan = scan.limit(source.limit)
    fields = tuple(scan.row_schema.field(name) for name in scan.schema.names)
    relation = Relation(source.view, fields, "", explained=_explained(source, scan))
    parts = []
    if type(scan) is Scan and scan.max_rows is None and scan.residual is None:
        parts = _of_splits(relation, scan, scan.plan())
    else:
        relation.size = _size_of(scan)
        parts = [_streamed(relation, scan.schema, scan.to_batches)]
    relation.select = " UNION ALL ".join(parts)
    return relation


def _size_of(scan: TableScan) -> int:
    """Bytes of the data files of a read that has no splits of files alone; 0 if it needs few of them, or has none."""
    if not isinstance(scan, Scan) or scan.max_rows is not None:
        return 0
    files = Scan(scan.table, filter=scan.filter, snapshot=scan.snapshot)
    return sum(split.file_size for split in files.plan())


def _explained(source: Source, scan: TableScan) -> str:
    names = ", ".join(scan.schema.names)
    result = f"{source.table}: columns {names}"
    result += "" if source.filter is None else f"; filter {source.filter}"
    return result + ("" if source.limit is None else f"; limit {source.limit}")


def _of_splits(relation: Relation, scan: Scan, splits: Sequence[Split]) -> list[str]:
    """The text of the parts of a read: files of DuckDB by the names of their columns, and the other splits."""
    relation.size = sum(split.file_size for split in splits)
    files: dict[Sources, list[NativeFile]] = {}
    rest: list[Split] = []
    store = scan.table.store
    is_local = scheme_of(scan.table.path) == "file"
    root = scan.table.io.absolute(scan.table.path).removeprefix("file://")
    for split in splits:
        plan = pick_native([split], scan.schema.names, store.schemas, store.paths) if is_local else None
        result = [(sources, f) for sources, of in plan.files.items() for f in of] if plan is not None else []
        if plan is None or plan.rest or not result or not all(_is_plain(relation, s, f) for s, f in result):
            rest.append(split)
            continue
        for sources, native in result:
            files.setdefault(sources, []).append(native)
    parts = []
    for sources, natives in files.items():
        paths = [scan.table.io.absolute(native.path).removeprefix("file://") for native in natives]
        relation.directory = os.path.dirname(root)
        parts.append(_of_files(relation.fields, sources, paths))
    count = sum(map(len, files.values()))
    relation.explained += f"; {count} files by DuckDB, {len(rest)} splits by lakelog, {relation.size:,} bytes"
    if rest or not parts:
        parts.append(_streamed(relation, scan.schema, lambda: (b for split in rest for b in scan.read(split))))
    return parts


def _is_plain(relation: Relation, sources: Sources, native: NativeFile) -> bool:
    """Returns whether DuckDB reads a file as it is; a missing column of a nested type has no name of its type there."""
    lacks = [f for f, source in zip(relation.fields, sources, strict=True) if source is None]
    is_known = all(kind_of(f.type) != OTHER for f in lacks)
    return native.is_whole and is_known and _PATTERN_SIGNS.isdisjoint(native.path)


def _of_files(fields: Sequence[DataField], sources: Sources, paths: Sequence[str]) -> str:
    columns = (f"{_value(f, source)} AS {quoted(f.name)}" for f, source in zip(fields, sources, strict=True))
    names = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"SELECT {', '.join(columns)} FROM read_parquet([{names}], hive_partitioning = false)"


def _value(column: DataField, source: str | None) -> str:
    """A column of files. A float is guarded: statistics of a Parquet file leave NaN out, the largest value in SQL."""
    if source is None:
        return f"CAST(NULL AS {_type_of(column)})"
    name = quoted(source)
    if is_float(column):
        return f"CASE WHEN isnan({name}) THEN CAST('NaN' AS {_type_of(column)}) ELSE {name} END"
    return name if kind_of(column.type) == OTHER else f"CAST({name} AS {_type_of(column)})"


def _streamed(relation: Relation, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> str:
    name = f"{relation.name}_rows"
    relation.streams[name] = RowStream(schema, read)
    columns = (
        quoted(f.name) if kind_of(f.type) == OTHER else f"CAST({quoted(f.name)} AS {_type_of(f)}) AS {quoted(f.name)}"
        for f in relation.fields
    )
    return f"SELECT {', '.join(columns)} FROM {quoted(name)}"


def _type_of(column: DataField) -> str:
    kind = kind_of(column.type)
    return kind.duckdb.sql("duckdb")


def _counted(source: Source, scan: TableScan) -> Relation:
    """The number of rows for each value of partition columns, from metadata where no merge decides it."""
    keys = list(source.columns or ())
    fields = tuple(scan.row_schema.field(key) for key in keys)
    schema = pa.schema([*arrow_schema(fields), _COUNTS])
    splits = scan.plan()
    relation = Relation(source.view, fields, "", is_counted=True, explained=f"{source.table}: row counts from metadata")
    relation.size = sum(split.file_size for split in splits if split.exact_rows is None)
    relation.select = _streamed(relation, schema, lambda: iter([_counts(scan, keys, splits, schema)]))
    relation.select = relation.select.replace("SELECT ", f"SELECT {quoted(COUNTED)}{', ' if keys else ''} ", 1)
    return relation


def _counts(scan: TableScan, keys: Sequence[str], splits: Sequence[Split], schema: pa.Schema) -> pa.RecordBatch:
    counts: Counter[bytes] = Counter()
    narrow = scan.select(keys or (scan.row_schema.primary_keys or scan.row_schema.field_names)[:1])
    for split in splits:
        rows = split.exact_rows
        counts[split.partition] += sum(len(b) for b in narrow.read(split)) if rows is None else rows
    counts = +counts
    at = [scan.row_schema.partition_keys.index(key) for key in keys]
    values = [decode_partition(partition, scan.row_schema) for partition in counts] if keys else []
    columns = [pa.array([row[place] for row in values], schema.field(n).type) for n, place in enumerate(at)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(list(counts.values()), pa.int64())], schema=schema)
