"""Parquet data files with the physical types of Apache Paimon (format sheet 6.3)."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakelog.errors import Corrupt, Unavailable, UnsupportedFeature
from lakelog.format.base import BATCH_ROWS, FileFormat, select_columns, with_types
from lakelog.io.file_io import FileIO
from lakelog.spec.types import DataField

_LEVELLED = ("zstd", "gzip", "brotli")
_OF_OTHERS = {"null": "none", "zlib": "gzip"}
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 128 << 20
_WRITES_ADJUSTED_TIME = "write_time_adjusted_to_utc" in inspect.signature(pq.ParquetWriter).parameters
"""Newer releases of pyarrow only; readers of the format do not look at it."""

_DATASET_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class ParquetFormat(FileFormat):
    """The default format; read and written."""

    name = "parquet"

    def file_columns(self, io: FileIO, path: str) -> list[str]:
        with _opened(io, path) as file:
            return list(file.schema_arrow.names)

    def read(
        self,
        io: FileIO,
        path: str,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        filter: pc.Expression | None = None,
        fields: Sequence[DataField] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with _opened(io, path) as file:
            wanted = select_columns(path, file.schema_arrow.names, columns)
            found = (
                _scan(file, wanted, batch_rows) if filter is None else _filtered(io, path, wanted, batch_rows, filter)
            )
            for batch in found:
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
        try:
            # closing the sink makes the file durable, and tells its size before that
            with io.open_output(path) as sink:
                with _writer(sink, schema, compression, level) as writer:
                    for group in _row_groups(batches):
                        writer.write_table(group.cast(schema), row_group_size=_GROUP_ROWS)
                size = int(sink.tell())
        except BaseException:
            io.delete(path)
            raise
        return size


@contextlib.contextmanager
def _opened(io: FileIO, path: str) -> Iterator[pq.ParquetFile]:
    with io.open_input(path) as source:
        try:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            yield file
        except pa.ArrowInvalid as why:
            raise Corrupt(f"'{path}' is not a sound Parquet file: {why}") from None
        except OSError as why:
            if why.errno is None:
                raise Corrupt(f"'{path}' is not a sound Parquet file: {why}") from None
            raise Unavailable(f"'{path}' cannot be read: {why}") from why


def _scan(file: pq.ParquetFile, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in file.iter_batches(batch_rows, columns=columns):
        yield batch if batch.schema.names == columns else batch.select(columns)


def _filtered(
    io: FileIO, path: str, columns: list[str], batch_rows: int, filter: pc.Expression
) -> Iterator[pa.RecordBatch]:
    """Row groups by their statistics first, then rows."""
    with io.open_input(path) as source:
        fragment = _DATASET_FORMAT.make_fragment(source)
        yield from fragment.to_batches(columns=columns, filter=filter, batch_size=batch_rows)


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Puts batches together to tables of a good size for a row group."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _GROUP_ROWS or sum(b.nbytes for b in held) >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if any(b.num_rows for b in held):
        yield pa.Table.from_batches(held)


def _writer(sink: pa.NativeFile, schema: pa.Schema, compression: str, level: int | None) -> pq.ParquetWriter:
    if compression in _OF_OTHERS:
        raise UnsupportedFeature(
            f"'file.compression' = '{compression}' is not supported for Parquet files: use {_OF_OTHERS[compression]}"
        )
    stamps = [kind for field in schema for kind in _timestamps(field.type)]
    nanos = [kind for kind in stamps if kind.unit == "ns"]
    if nanos and len(nanos) < len(stamps):
        raise UnsupportedFeature(
            "a table with TIMESTAMP(7) to (9) beside TIMESTAMP(0) to (6) cannot be written: a Parquet file holds the "
            "former as INT96, and then all of them; give all timestamps 6 digits at most"
        )
    return pq.ParquetWriter(
        sink,
        schema,
        version="2.6",
        compression="NONE" if compression == "none" else compression,
        compression_level=level if compression in _LEVELLED else None,
        use_deprecated_int96_timestamps=bool(nanos),
        store_decimal_as_integer=True,
        use_compliant_nested_type=True,
        store_schema=False,
        # a damaged page of numbers would decompress to other numbers
        write_page_checksum=True,
        **({"write_time_adjusted_to_utc": True} if _WRITES_ADJUSTED_TIME else {}),
    )


def _timestamps(kind: pa.DataType) -> Iterator[pa.TimestampType]:
    if pa.types.is_timestamp(kind):
        yield kind
    for i in range(kind.num_fields):
        yield from _timestamps(kind.field(i).type)
