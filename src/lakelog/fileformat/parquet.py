"""Parquet data files with the physical types of Apache Paimon (format sheet 6.3)."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.base import (
    BATCH_ROWS,
    FileFormat,
    corrupt_file,
    create_file,
    limited,
    read_errors,
    select_columns,
    with_types,
)
from lakelog.fileformat.parquet_groups import check_written, group_bounds, plain_parts
from lakelog.fileformat.parquet_thrift import FLOATS, RowGroup, read_footer
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.types.arrow import FIELD_ID
from lakelog.paimon.types.null_rows import cast_rows
from lakelog.paimon.types.types import DataField

_LEVELLED = ("zstd", "gzip", "brotli")
_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 8 << 20
"""Target bytes of a row group, the unit that a reader may skip, and must decode for one row."""
_ROW = "_lakelog_row"
_FOOTER_ITEMS: Final = 1 << 17
"""The most items of a list in a footer, because memory is taken for all before any is read."""
_SAMPLE_ROWS = 1 << 12
_MOST_DISTINCT = 0.5
"""Maximum share of distinct values in a sample of a column with a dictionary; otherwise it would overflow."""
_WRITES_ADJUSTED_TIME = "write_time_adjusted_to_utc" in inspect.signature(pq.ParquetWriter).parameters
"""True for newer releases of pyarrow only; readers of the format ignore the flag."""

_DATASET_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class ParquetFormat(FileFormat):
    """The default format; read and written."""

    name = "parquet"
    skips_by_filter: ClassVar[bool] = True
    holds_variant: ClassVar[bool] = True
    compressions: ClassVar[tuple[str, ...]] = ("zstd", "none", "snappy", "gzip", "lz4", "brotli")

    def file_columns(self, io: FileIO, path: str) -> list[str]:
        with _opened(io, path) as (_, _, file):
            return list(file.schema_arrow.names)

    def read(
        self,
        io: FileIO,
        path: str,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        filter: pc.Expression | None = None,
        fields: Sequence[DataField] | None = None,
        filter_columns: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        with _opened(io, path) as (source, groups, file):
            known = file.schema_arrow.names
            names = select_columns(path, known, columns)
            rows = _Rows(path, source, groups, file, batch_rows)
            if filter is None:
                batches = rows.scan(names, range(len(groups)))
            else:
                batches = _filtered(rows, names, filter, filter_columns or known)
            for batch in limited(path, source.size(), batches):
                if batch.num_rows:
                    yield with_types(batch, fields)

    def write(
        self,
        io: FileIO,
        path: str,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        compression: str = "zstd",
        level: int | None = 1,
    ) -> int:
        self.check_compression(compression)

        def write_to(sink: pa.NativeFile) -> None:
            groups = (cast_rows(group, schema) for group in _row_groups(batches))
            first = next(groups, schema.empty_table())
            with _writer(sink, first, compression, level) as writer:
                for group in itertools.chain([first] if first.num_rows else [], groups):
                    writer.write_table(group, row_group_size=_GROUP_ROWS)
            check_written(writer.writer.metadata)

        return create_file(io, path, write_to)


def has_field_ids(io: FileIO, path: str) -> bool:
    """True if each column of a Parquet file has a field id. Raises NotFound, Corrupt, Unavailable."""
    with _opened(io, path) as (_, _, file):
        return all(field.metadata and FIELD_ID in field.metadata for field in file.schema_arrow)


@contextlib.contextmanager
def _opened(io: FileIO, path: str) -> Iterator[tuple[pa.NativeFile, tuple[RowGroup, ...], pq.ParquetFile]]:
    with io.open_input(path) as source, read_errors(path, "Parquet"):
        with corrupt_file(path):
            groups = read_footer(source)
        yield source, groups, _parquet_file(source)


def _parquet_file(source: pa.NativeFile, **given: Any) -> pq.ParquetFile:
    return pq.ParquetFile(source, page_checksum_verification=True, thrift_container_size_limit=_FOOTER_ITEMS, **given)


@dataclass(frozen=True)
class _Rows:
    path: str
    source: pa.NativeFile
    groups: tuple[RowGroup, ...]
    file: pq.ParquetFile
    batch_rows: int

    def scan(self, columns: list[str], groups: Iterable[int], most_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows of some groups, in batches of bounded memory. Raises Corrupt."""
        # asked for all groups at once, the file's reader would hold what it has read of each to the end
        schema = pa.schema([self.file.schema_arrow.field(name) for name in columns])
        file, held = self.file, tuple[str, ...]()
        for group in groups:
            with corrupt_file(self.path):
                bounds = group_bounds(self.source, self.groups[group], columns)
            if bounds.dictionaries != held:
                held = bounds.dictionaries
                file = _parquet_file(self.source, metadata=self.file.metadata, read_dictionary=list(held))
            rows = min(self.batch_rows, most_rows, bounds.batch_rows)
            for batch in file.iter_batches(rows, columns=columns, row_groups=[group]):
                yield from plain_parts(batch if batch.schema.names == columns else batch.select(columns), schema)


def _filtered(
    rows: _Rows, columns: list[str], filter: pc.Expression, filter_columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Filters row groups by their statistics first, then rows; decodes a group up to its last matching row."""
    fragment = _DATASET_FORMAT.make_fragment(rows.source)
    asked = {group.id for group in fragment.subset(filter).row_groups}
    for group, about in enumerate(rows.groups):
        if group not in asked and not _may_hide_nan(about, filter_columns):
            continue
        mask = _matches(rows.scan(list(filter_columns), [group]), filter)
        positions = np.flatnonzero(mask)
        if not len(positions):
            continue
        start = 0
        # the last batch ends with the last matching row
        for batch in rows.scan(columns, [group], int(positions[-1]) + 1):
            kept = np.flatnonzero(mask[start : start + batch.num_rows])
            start += batch.num_rows
            if len(kept) == batch.num_rows:
                yield batch
            elif len(kept):
                yield batch.take(pa.array(kept)) if columns else batch.slice(0, len(kept))
            if start > positions[-1]:
                break


def _may_hide_nan(group: RowGroup, columns: Sequence[str]) -> bool:
    """Returns whether Arrow treats a float column of a group as constant although it may also contain NaN.

    Statistics do not include NaN.
    """
    return any(
        chunk.leaf.path in columns and len({*chunk.float_bounds()}) == 1
        for chunk in group.chunks
        if chunk.leaf.kind in FLOATS
    )


def _matches(batches: Iterable[pa.RecordBatch], filter: pc.Expression) -> npt.NDArray[np.bool_]:
    """A mask of the matching rows."""
    masks = [np.zeros(0, dtype=np.bool_)]
    for batch in batches:
        mask = np.zeros(batch.num_rows, dtype=np.bool_)
        numbered = pa.Table.from_batches([batch]).append_column(_ROW, pa.array(np.arange(len(mask))))
        mask[numbered.filter(filter).column(_ROW).to_numpy()] = True
        masks.append(mask)
    return np.concatenate(masks)


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of the size of a row group; the last one may be smaller."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            row_bytes = max(1, (size + batch.nbytes) // (rows + batch.num_rows))
            missing = max(1, min(_GROUP_ROWS, _GROUP_BYTES // row_bytes) - rows)
            part = batch.slice(start, missing)
            waiting.append(part)
            rows, size, start = rows + part.num_rows, size + part.nbytes, start + part.num_rows
            if part.num_rows == missing:
                yield pa.Table.from_batches(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _writer(sink: pa.NativeFile, first: pa.Table, compression: str, level: int | None) -> pq.ParquetWriter:
    """A writer with encodings that suit the rows of the first row group."""
    schema = first.schema
    stamps = [kind for field in schema for kind in _timestamps(field.type)]
    nanos = [kind for kind in stamps if kind.unit == "ns"]
    if nanos and len(nanos) < len(stamps):
        raise UnsupportedFeature(
            "a table cannot mix TIMESTAMP(7) to (9) with TIMESTAMP(0) to (6): a Parquet file stores either all "
            "timestamps as INT96 or none. Give all timestamps at most 6 digits"
        )
    plain = {field.name for field in schema if _has_many_values(first.column(field.name))}
    integers = (pa.int32(), pa.int64())
    return pq.ParquetWriter(
        sink,
        schema,
        version="2.6",
        compression="NONE" if compression == "none" else compression,
        compression_level=level if compression in _LEVELLED else None,
        use_dictionary=[path for f in schema if f.name not in plain for path in _leaves(f.name, f.type)],
        # sorted or similar keys and sequence numbers are encoded in few bits
        column_encoding={name: "DELTA_BINARY_PACKED" for name in plain if schema.field(name).type in integers},
        use_deprecated_int96_timestamps=bool(nanos),
        store_decimal_as_integer=True,
        use_compliant_nested_type=True,
        store_schema=False,
        write_page_index=True,
        # without a checksum, a damaged page of numbers would decompress to other numbers
        write_page_checksum=True,
        **({"write_time_adjusted_to_utc": True} if _WRITES_ADJUSTED_TIME else {}),
    )


def _has_many_values(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type) or not len(column):
        return False
    step = max(1, len(column) // _SAMPLE_ROWS)
    sample = column.take(pa.array(np.arange(0, len(column), step)))
    return len(sample.unique()) > _MOST_DISTINCT * len(sample)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The Parquet columns of an Arrow column."""
    if pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path


def _timestamps(kind: pa.DataType) -> Iterator[pa.TimestampType]:
    if pa.types.is_timestamp(kind):
        yield kind
    for i in range(kind.num_fields):
        yield from _timestamps(kind.field(i).type)
