"""The lakelog part of EXPLAIN above Spark's plan: the skipped data of a table's read, and the reader of each split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakelog.filestore.read.native_files import pick_native
from lakelog.filestore.read.plan import Split
from lakelog.io import scheme_of
from lakelog.io.quantities import format_bytes
from lakelog.paimon.rows.display import partition_path
from lakelog.sql.query.predicate_parser import filtered
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.union_scan import UnionScan

_MOST_SPLITS: Final = 20


def with_reports(spark: SparkSession, plans: DataFrame, reports: Sequence[str], plan: QueryPlan) -> DataFrame:
    """The result of EXPLAIN, with lakelog's work on top of Spark's plan: the write of the rows, the engine, reads."""
    text = "\n".join(str(row[0]) for row in plans.collect())
    writes = [] if plan.write is None else ["== Write ==", plan.write, ""]
    engine = ["== Engine ==", f"Spark: {plan.why_spark}", ""] if plan.why_spark else []
    tables = ["== Tables ==", *reports, ""] if reports else []
    return spark.createDataFrame([("\n".join([*writes, *engine, *tables, text]),)], plans.schema)


def report(
    scan: TableScan,
    source: Source,
    schemes: Sequence[str],
    is_small: Callable[[Sequence[Split], Scan], bool],
    is_cached: bool,
    is_read_first: bool,
) -> str | None:
    """The read of one table in a query; None for a system table or changes, which have no details.

    ``schemes`` are those of file systems where Spark reads files itself; the driver reads splits that are small.
    ``is_read_first`` means that the driver reads the table before the query, to find the partitions of another one.
    """
    if isinstance(scan, UnionScan):
        return scan.explain()
    if not isinstance(scan, Scan):
        return None
    whole = scan.plan()
    chosen = whole if source.filter is None else filtered(scan, source.filter).plan()
    lines = [
        f"Table {scan.table.name}, {_moment(scan, whole)}",
        f"  columns: {_columns(source)}",
        f"  skips by: {source.filter or 'nothing'}",
        f"  reads {_counted(chosen)} of {_counted(whole)}",
    ]
    if is_cached:
        return "\n".join([*lines, "  from Spark's memory (CACHE TABLE)"])
    if is_read_first:
        lines.append("  read first by the driver, to select the partitions of another table")
    if source.limit is not None:
        lines.append(f"  until there are {source.limit} rows, splits without a merge first")
    few = is_small(chosen, scan)
    native = frozenset[str]() if few else _native(scan, source, chosen, schemes)
    others = "the driver reads them, because they are few" if few else "Python workers read them"
    read = [_line(scan, split, _how(split, source, native, others)) for split in chosen[:_MOST_SPLITS]]
    more = len(chosen) - len(read)
    return "\n".join([*lines, *read, *([f"  … and {more} more splits"] if more else [])])


def _moment(scan: Scan, splits: Sequence[Split]) -> str:
    if scan.snapshot is not None:
        return f"snapshot {scan.snapshot if isinstance(scan.snapshot, int) else scan.snapshot.id}"
    snapshots = {split.snapshot_id for split in splits if split.snapshot_id is not None}
    waiting = sum(len(split.inline_runs) for split in splits)
    decided = f" and {waiting} runs of decided epochs" if waiting else ""
    return f"snapshot {max(snapshots)}{decided}" if snapshots else f"no snapshot{decided}"


def _columns(source: Source) -> str:
    if source.counts:
        return ", ".join([*(source.columns or ()), "count(*)"])
    return "all" if source.columns is None else ", ".join(source.columns)


def _counted(splits: Sequence[Split]) -> str:
    files = sum(len(split.files) for split in splits)
    return f"{len(splits)} splits, {files} files, {format_bytes(sum(split.file_size for split in splits))}"


def _native(scan: Scan, source: Source, splits: Sequence[Split], schemes: Sequence[str]) -> frozenset[str]:
    """The names of the files that Spark reads itself."""
    if scheme_of(scan.table.path) not in schemes:
        return frozenset()
    store = scan.table.store
    names = scan.row_schema.field_names if source.columns is None else source.columns
    plan = pick_native(splits, [n for n in names if n in scan.row_schema.field_names], store.schemas, store.paths)
    return frozenset(file.meta.file_name for files in plan.files.values() for file in files)


def _how(split: Split, source: Source, native: frozenset[str], others: str) -> str:
    if source.counts and split.exact_rows is not None:
        return "counted by metadata"
    here = [f.file_name in native for f in split.files]
    if here and all(here) and not split.inline_runs:
        hides = split.needs_merge or split.vectors
        return "Spark reads the files" + (", except rows that others replace or delete" if hides else "")
    if any(here):
        return f"Spark reads {sum(here)} of the files, Python workers the rest"
    return others + (", merged" if split.needs_merge else "")


def _line(scan: Scan, split: Split, how: str) -> str:
    schema = scan.table.schema
    directory = partition_path(split.partition, schema, "NULL") if schema.partition_keys else ""
    directory = "/".join([*([directory] if directory else []), f"bucket-{split.bucket}"])
    runs = f" and {len(split.inline_runs)} runs" if split.inline_runs else ""
    return (
        f"  {directory}: {len(split.files)} files{runs}, {split.row_count} rows, {format_bytes(split.file_size)}: {how}"
    )
