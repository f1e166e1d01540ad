"""Checks of row values, before their record is appended to the log or a file is written.

An epoch is decided once all its tasks are done. If the seal or a reader could not handle a value afterwards, it would
stay permanently, so the task refuses it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException, PolarsError

from lakelog.errors import Corrupt, InvalidSchema, LakelogError
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.write.bucket_writer import BucketWriter
from lakelog.filestore.write.data_file_writer import data_style
from lakelog.io.storage.local import LocalFileIO
from lakelog.merge.base import KIND_COLUMN as KIND
from lakelog.merge.base import SEQUENCE_COLUMN, PickingEngine
from lakelog.merge.runs import fold_rows
from lakelog.options.file_index import bloom_columns
from lakelog.options.option import Options
from lakelog.options.table import FILE_FORMAT
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER
from lakelog.paimon.types.arrow import fresh_offsets
from lakelog.paimon.types.variant import is_variant
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN
from lakelog.table.model.dynamic_table import DynamicTable

_FIRST_DAY: Final = int(np.datetime64("0001-01-01", "D").astype(np.int64))
_END_DAY: Final = int(np.datetime64("10000-01-01", "D").astype(np.int64))
_DAY_S: Final = 86_400
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SHOWN: Final = 60
"""Maximum number of characters of a value in an error."""
_LONGEST_NAME: Final = 255
"""Maximum number of bytes of a directory's name on local disks and HDFS."""
_VARIANT_HEADS: Final = [bytes([1 | flags << 4]) for flags in range(16)]
"""First bytes of VARIANT metadata of version 1."""
_Finder = Callable[[pa.Array], str | None]
"""Finds the first invalid value of a leaf or map column, as text; None if all are valid."""


@contextlib.contextmanager
def row_errors(table: str) -> Iterator[None]:
    """Turns a library's error for a value into InvalidSchema; wraps the encoding of rows."""
    try:
        yield
    except (LakelogError, MemoryError, pa.ArrowCancelled):  # no fault of a value
        raise
    except (pa.ArrowException, PolarsError, PanicException, ValueError, OverflowError) as why:
        raise InvalidSchema(f"rows of table {table} cannot be written: {why}") from why


def check_values(rows: pa.RecordBatch, kinds: np.ndarray, table: DynamicTable, is_new: bool) -> None:
    """All checks of the values of conformed rows, which an overwrite by files (``is_new`` false) has had before.

    Raises InvalidSchema.
    """
    check_text(rows, table.name)
    if is_new:  # sums in the files may have more digits
        check_decimals(rows, table.name)
    check_times(rows, table.name)
    check_map_keys(rows, table.name)
    check_variants(rows, table.name)
    if is_new:
        added = _added(rows, kinds)
        check_years(added if table.log is not None else added.select(table.schema.primary_keys), table.name)


def _added(rows: pa.RecordBatch, kinds: np.ndarray) -> pa.RecordBatch:
    """The rows without retractions, which refer to existing rows of the table."""
    is_added = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    return rows if is_added.all() else rows.filter(pa.array(is_added))


def check_text(rows: pa.RecordBatch, table: str) -> None:
    """Raises InvalidSchema for text that is not UTF-8, such as Spark's ``cast(X'ff' as string)``."""
    fault = (
        "text that is not UTF-8: {value} (row {row} of a batch). "
        "Decode the bytes with their own character set, or make the column binary"
    )
    _check(rows, table, fault, _bad_text)


def check_decimals(rows: pa.RecordBatch, table: str) -> None:
    """Raises InvalidSchema for a decimal with more digits than its type allows, which Arrow does not check."""
    fault = (
        "{value} (row {row} of a batch), which has more digits than {type}: cast the column, or give the table a "
        "wider type"
    )
    _check(rows, table, fault, _bad_decimal)


def check_times(rows: pa.RecordBatch, table: str) -> None:
    """Raises InvalidSchema for a time outside a day, which Arrow does not check."""
    fault = "{value} (row {row} of a batch), which is no time of a day: 00:00:00.000 to 23:59:59.999"
    _check(rows, table, fault, _bad_time)


def check_map_keys(rows: pa.RecordBatch, table: str) -> None:
    """Raises InvalidSchema for a map with a duplicate key, because a JSON object of the log holds it once."""
    fault = "a map with the key {value} twice (row {row} of a batch): keep one value of each key"
    _check(rows, table, fault, wrong_map=_doubled_key)


def check_variants(rows: pa.RecordBatch, table: str) -> None:
    """Raises InvalidSchema for a VARIANT without a value, or with metadata of another version than the format's."""
    fault = (
        "a VARIANT with {value} (row {row} of a batch): make its bytes with Spark's parse_json, or with "
        "lakelog.variant.from_json"
    )
    _check(rows, table, fault, _bad_variant)


def check_years(rows: pa.RecordBatch, table: str) -> None:
    """Raises InvalidSchema for a date or timestamp outside the years 1 to 9999 (in UTC if it has a zone).

    Neither Python nor the JSON readers of a log can represent other years.
    """
    fault = (
        "{value} (row {row} of a batch), which is outside the years 0001 to 9999 in UTC: write NULL or an earlier "
        "date, as 9999-12-30, for an unlimited time"
    )
    _check(rows, table, fault, _bad_year)


def _nothing_wrong(_: pa.Array) -> str | None:
    return None


def _check(
    rows: pa.RecordBatch, table: str, fault: str, wrong: _Finder = _nothing_wrong, wrong_map: _Finder = _nothing_wrong
) -> None:
    """Raises InvalidSchema for the first column with an invalid value; ``fault`` is a format of value, row and type."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        wrong_row = _first(column, wrong, wrong_map)
        if wrong_row is not None:
            row, value = wrong_row
            what = fault.format(value=value, row=row, type=column.type)
            raise InvalidSchema(f"column '{name}' of table {table} holds {what}")


def _first(column: pa.Array, wrong: _Finder, wrong_map: _Finder) -> tuple[int, str] | None:
    """The first row with an invalid value, and that value."""

    def find(part: pa.Array) -> str | None:
        for leaf in _parts(part):
            value = wrong_map(leaf) if pa.types.is_map(leaf.type) else wrong(leaf)
            if value is not None:
                return value
        return None

    if find(column) is None:
        return None
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        if find(column.slice(start, middle - start)) is not None:
            stop = middle
        else:
            start = middle
    return start, find(column.slice(start, 1)) or ""


def _parts(column: pa.Array) -> Iterator[pa.Array]:
    """The column itself if it is a leaf or a map, and the parts of nested ones."""
    kind = column.type
    if pa.types.is_map(kind):
        yield column
        _, start, stop = fresh_offsets(column)
        yield from _parts(column.keys.slice(start, stop - start))
        yield from _parts(column.items.slice(start, stop - start))
    elif is_variant(kind):
        yield column
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _parts(part)
    elif pa.types.is_list(kind):
        yield from _parts(column.flatten())
    else:
        yield column


def _bad_text(leaf: pa.Array) -> str | None:
    if not pa.types.is_string(leaf.type):
        return None
    try:
        leaf.validate(full=True)
    except pa.ArrowInvalid:
        for value in leaf.cast(pa.binary()).to_pylist():
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                return _shown(repr(value))
    return None


def _bad_variant(leaf: pa.Array) -> str | None:
    if not is_variant(leaf.type):
        return None
    there = leaf.drop_null()
    sizes = pc.fill_null(pc.binary_length(there.field("value")), 0)
    heads = pc.fill_null(pc.binary_slice(there.field("metadata"), 0, 1), b"")
    wrong = pc.invert(pc.is_in(heads, pa.array(_VARIANT_HEADS, heads.type)))
    if pc.any(wrong).as_py():
        return f"metadata that begin with {heads.filter(wrong)[0].as_py()!r}"
    return "an empty value" if pc.any(pc.equal(sizes, 0)).as_py() else None


def _bad_decimal(leaf: pa.Array) -> str | None:
    if not pa.types.is_decimal(leaf.type):
        return None
    try:
        leaf.validate(full=True)
    except pa.ArrowInvalid:
        for value in leaf.drop_null().to_pylist():
            if len(value.as_tuple().digits) > leaf.type.precision:
                return str(value)
    return None


def _bad_time(leaf: pa.Array) -> str | None:
    if not pa.types.is_time32(leaf.type):
        return None
    millis = leaf.view(pa.int32())
    wrong = pc.or_(pc.less(millis, 0), pc.greater_equal(millis, _DAY_S * 1000))
    return f"{millis.filter(wrong)[0].as_py()} ms" if pc.any(wrong).as_py() else None


def _bad_year(leaf: pa.Array) -> str | None:
    kind = leaf.type
    if pa.types.is_date32(kind):
        values, per_day, unit = leaf.view(pa.int32()), 1, "D"
    elif pa.types.is_timestamp(kind):
        values, per_day, unit = leaf.view(pa.int64()), _DAY_S * _PER_SECOND[kind.unit], kind.unit
    else:
        return None
    if unit == "ns":  # 64 bits of nanoseconds end in the year 2262
        return None
    bounds = pc.min_max(values).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None or (low >= _FIRST_DAY * per_day and high < _END_DAY * per_day):
        return None
    wrong = low if low < _FIRST_DAY * per_day else high
    return str(np.array(wrong).astype(f"datetime64[{unit}]")).replace("T", " ")


def _doubled_key(column: pa.MapArray) -> str | None:
    offsets, start, stop = fresh_offsets(column)
    sizes = np.diff(offsets.to_numpy())
    if not (sizes > 1).any():
        return None
    row_of_key = np.repeat(np.arange(len(column)), sizes)
    keys_of_row = column.keys.slice(start, stop - start)
    if pa.types.is_nested(keys_of_row.type):  # Arrow groups no such values
        keys_of_row = pa.array([repr(key) for key in keys_of_row.to_pylist()])
    keys = pa.table({"row": row_of_key, "key": keys_of_row})
    counts = keys.group_by(["row", "key"], use_threads=False).aggregate([([], "count_all")])
    doubled = counts.filter(pc.greater(counts.column("count_all"), 1))
    if not doubled.num_rows:
        return None
    key = doubled.column("key")[0].as_py()
    return _shown(key if pa.types.is_nested(column.type.key_type) else repr(key))


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class _NoFiles(LocalFileIO):
    """Accepts files and discards them."""

    def open_output(self, path: str) -> pa.NativeFile:
        return pa.BufferOutputStream()

    def write(self, path: str, data: bytes) -> None:
        return

    def delete(self, path: str) -> None:
        return


def check_seal(runs: Sequence[tuple[bytes, pa.Table]], table: DynamicTable) -> None:
    """Folds and encodes inline runs (partition, rows) as the seal will, each by itself, and keeps nothing of them.

    Parquet and the statistics take every value that the other checks let pass, so one run of each schema is tried.
    File indexes and other formats are tried with every run. Raises InvalidSchema, UnsupportedFeature.
    """
    schema, engine, options = table.schema, engine_of(table.schema), Options(table.schema.options)
    engine.refuses_overflow = True
    for partition in {partition for partition, _ in runs}:
        try:
            directory = table.store.paths.bucket_dir(partition, 0)
        except Corrupt as why:
            raise InvalidSchema(
                f"rows of table {table.name} have a partition value that cannot be a directory name, such as a time "
                f"outside the years 0001 to 9999: {why}. Write NULL or another value"
            ) from None
        longest = max(directory.split("/"), key=lambda name: len(name.encode()))
        if len(longest.encode()) > _LONGEST_NAME:
            column, _, value = longest.partition("=")
            raise InvalidSchema(
                f"partition column '{column}' of table {table.name} has the value '{_shown(value)}', whose directory "
                f"name has {len(longest.encode())} bytes; at most {_LONGEST_NAME} are possible. Write a shorter value"
            )
    if schema.is_keyed and not isinstance(engine, PickingEngine):
        names = {ORDER_COLUMN: SEQUENCE_COLUMN, KIND_COLUMN: KIND}
        for _, rows in runs:
            renamed = rows.rename_columns([names.get(name, name) for name in rows.column_names])
            fold_rows(renamed, schema.trimmed_primary_keys, engine)
    tried = table.identity.memory.tried_schemas
    if data_style(options, 0).format == FILE_FORMAT.default and not bloom_columns(options):
        runs = runs[:1] if schema.id not in tried else ()
    for partition, rows in runs:
        writer = BucketWriter(_NoFiles(), table.store.paths, partition, 0, emits_changelog=False)
        writer.write(rows.drop_columns([ORDER_COLUMN, KIND_COLUMN]), rows.column(KIND_COLUMN))
        if writer.finish():
            tried.add(schema.id)
