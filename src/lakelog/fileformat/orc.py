"""ORC data files (format sheet 6.4)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import orc

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.base import (
    BATCH_ROWS,
    FileFormat,
    corrupt_file,
    create_file,
    limited,
    matching_rows,
    read_errors,
    select_columns,
    with_types,
)
from lakelog.fileformat.orc_footer import OrcFooter, read_footer
from lakelog.fileformat.orc_lengths import safe_rows
from lakelog.io.storage.file_io import FileIO
from lakelog.options.registry import load_target
from lakelog.paimon.types.arrow import FIELD_ID
from lakelog.paimon.types.types import DataField
from lakelog.paimon.types.variant import is_variant

_ID = b"paimon.id"
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LAST_SECOND: Final = 2**63 // 10**9 - 1
_MOST_ROW_BYTES: Final = 32 << 20
_RANGE: Final = "1677-09-22 to 2262-04-11"
_PYORC_READER: Final = "lakelog.fileformat.orc_times:read_stripe"
_COMPRESSIONS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "zlib": "zlib",
    "gzip": "zlib",
    "none": "uncompressed",
}


class OrcFormat(FileFormat):
    """Does not write timestamps that ORC's own readers and writers corrupt (before 1970 with fractional seconds) or
    that Arrow's reader rejects (outside of the years 1677 to 2262); reads the latter with ``pyorc``."""

    name = "orc"
    compressions: ClassVar[tuple[str, ...]] = tuple(_COMPRESSIONS)

    def file_columns(self, io: FileIO, path: str) -> list[str]:
        with _opened(io, path) as (_, file):
            return list(file.schema.names)

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
        with _opened(io, path) as (footer, file):
            known = file.schema.names
            names = select_columns(path, known, columns)
            is_filled = _is_filled(file)
            # a filter may use columns that are not requested
            read = names if names and filter is None else known
            for part in limited(path, footer.source.size(), _parts(io, path, footer, file, read)):
                typed = with_types(part, fields, blank_padded=is_filled)
                slices = (typed.slice(start, batch_rows) for start in range(0, part.num_rows, batch_rows))
                yield from matching_rows(slices, filter, names)

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
        target = pa.schema([_orc_field(f) for f in schema])

        def write_to(sink: pa.NativeFile) -> None:
            with orc.ORCWriter(sink, compression=_COMPRESSIONS[compression]) as writer:
                for batch in batches:
                    _check_times(batch)
                    _check_rows(batch)
                    pairs = zip(batch.columns, target, strict=True)
                    columns = [_whole(c) if c.type == f.type else _whole(c).cast(f.type) for c, f in pairs]
                    writer.write(pa.Table.from_arrays(columns, schema=target))

        return create_file(io, path, write_to)


def _whole(column: pa.Array) -> pa.Array:
    """The column as a separate array, because the ORC writer reads the wrong rows of a sliced nested array."""
    nested = pa.types.is_nested(column.type) and column.offset
    return column.take(pa.array(range(len(column)), pa.int64())) if nested else column


def _orc_field(field: pa.Field) -> pa.Field:
    """The ORC representation of a field: a TIME is an integer, and field ids, also nested ones, are attributes."""
    number = (field.metadata or {}).get(FIELD_ID)
    orc_field = field.with_type(_orc_type(field.type)).remove_metadata()
    return orc_field if number is None else orc_field.with_metadata({_ID: number})


def _orc_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(_orc_field(kind.key_field), _orc_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_orc_field(kind.value_field))
    if is_variant(kind):
        raise UnsupportedFeature("a VARIANT column cannot be written as ORC: use 'file.format' = 'parquet'")
    if pa.types.is_struct(kind):
        return pa.struct([_orc_field(kind.field(i)) for i in range(kind.num_fields)])
    return kind


def _check_times(batch: pa.RecordBatch) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for times in _times(column):
            seconds, fraction = np.divmod(times.view(pa.int64()).to_numpy(), _PER_SECOND[times.type.unit])
            if ((seconds < 0) & (fraction != 0)).any():
                raise UnsupportedFeature(
                    f"column '{field.name}' has a time before 1970 with a fraction of a second, which ORC files do not "
                    "store correctly: use 'file.format' = 'parquet'"
                )
            if (np.abs(seconds) > _LAST_SECOND).any():
                raise UnsupportedFeature(
                    f"column '{field.name}' has a time outside of {_RANGE}, which cannot be read from ORC files: use "
                    "'file.format' = 'parquet'"
                )


def _check_rows(batch: pa.RecordBatch) -> None:
    """Raises UnsupportedFeature for a row of which a reader could not tell that it is none of an attack."""
    if batch.nbytes <= _MOST_ROW_BYTES:
        return
    if batch.num_rows < 2:
        raise UnsupportedFeature(
            f"a row has {batch.nbytes} bytes, and one of an ORC file at most {_MOST_ROW_BYTES}: use 'file.format' = "
            "'parquet'"
        )
    half = batch.num_rows // 2
    _check_rows(batch.slice(0, half))
    _check_rows(batch.slice(half))


def _times(column: pa.Array) -> Iterator[pa.Array]:
    """The timestamps in a column, also nested ones, without nulls."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        yield column.drop_null()
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _times(part)
    elif pa.types.is_map(kind):
        yield from _times(_whole(column).keys)
        yield from _times(_whole(column).items)
    elif pa.types.is_list(kind):
        yield from _times(column.flatten())


def _is_filled(file: orc.ORCFile) -> bool:
    """True if CHAR values may be filled up, which readers undo. Other writers do so; Arrow writes text as it is."""
    try:
        return bool(file.writer != "ORC_CPP")
    except ValueError:  # a writer that Arrow does not know
        return True


def _parts(io: FileIO, path: str, footer: OrcFooter, file: orc.ORCFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a file: stripe by stripe, or in smaller batches if a stripe takes too much memory."""
    with corrupt_file(path):
        rows = safe_rows(footer, columns)
    if rows is None:
        for number in range(file.nstripes):
            yield from _stripe(io, path, file, number, columns)
        return
    fragment = ds.OrcFileFormat().make_fragment(footer.source)
    for batch in fragment.to_batches(
        columns=columns, batch_size=rows, batch_readahead=0, fragment_readahead=0, use_threads=False
    ):
        yield batch.select(columns)


def _stripe(io: FileIO, path: str, file: orc.ORCFile, number: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a stripe in one batch; in several, and slower, if it has times that Arrow's reader rejects."""
    try:
        yield _as_batch(file.read_stripe(number, columns=columns))
        return
    except pa.ArrowInvalid as why:
        if "nanosecond" not in str(why):
            raise
    read_stripe = load_target("reader of", f"times outside of {_RANGE}", _PYORC_READER, {"pyorc": "orc"})
    slow = pa.schema([field for field in file.schema if field.name in columns and _has_times(field.type)])
    fast = [name for name in columns if name not in slow.names]
    rest = _as_batch(file.read_stripe(number, columns=fast)) if fast else None
    start = 0
    for times in read_stripe(io, path, number, slow):
        parts = {name: times.column(name) for name in slow.names}
        if rest is not None:
            parts |= {name: rest.column(name).slice(start, times.num_rows) for name in fast}
        start += times.num_rows
        yield pa.RecordBatch.from_arrays([parts[name] for name in columns], names=columns)


def _has_times(kind: pa.DataType) -> bool:
    """Whether a type is a timestamp, or contains one."""
    return pa.types.is_timestamp(kind) or any(_has_times(kind.field(i).type) for i in range(kind.num_fields))


@contextlib.contextmanager
def _opened(io: FileIO, path: str) -> Iterator[tuple[OrcFooter, orc.ORCFile]]:
    with io.open_input(path) as source, read_errors(path, "ORC"):
        with corrupt_file(path):
            footer = read_footer(source)
        try:
            yield footer, orc.ORCFile(source)
        except pa.ArrowInvalid as why:
            if "out of bounds timestamp" not in str(why):
                raise
            raise UnsupportedFeature(
                f"'{path}' has a time outside of {_RANGE}, which does not fit into a column of nanoseconds "
                f"(TIMESTAMP(7) to TIMESTAMP(9)): read other columns, or give the column six digits ({why})"
            ) from None


def _as_batch(stripe: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    return stripe.combine_chunks().to_batches()[0] if isinstance(stripe, pa.Table) else stripe
