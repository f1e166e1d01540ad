"""Data files: Arrow batches ⇄ bytes; one implementation per format."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, Unavailable, UnsupportedFeature
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.types.arrow import arrow_type, fresh_offsets, map_array
from lakelog.paimon.types.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from lakelog.paimon.types.variant import VARIANT, has_variant

BATCH_ROWS = 65536
_SMALL_FILE_BYTES: Final = 256 << 20
_MOST_RATIO: Final = 1 << 15
"""Equal rows of some hundred bytes, the best that any format packs, come to less."""


class FileFormat(ABC):
    """A format of data files. Reads in batches, so that a file may exceed the memory."""

    name: str
    skips_by_filter: ClassVar[bool] = False
    """Whether ``read`` skips parts of a file by its filter."""
    holds_variant: ClassVar[bool] = False
    """Whether files may have VARIANT columns."""
    compressions: ClassVar[tuple[str, ...]] = ()
    """The compressions that ``write`` supports; empty if it accepts any."""

    def check_compression(self, compression: str) -> None:
        """Raises UnsupportedFeature for a compression that the format does not support."""
        if self.compressions and compression not in self.compressions:
            raise UnsupportedFeature(
                f"'file.compression' = '{compression}' does not go with 'file.format' = '{self.name}': use one of "
                f"{', '.join(self.compressions)}"
            )

    @abstractmethod
    def file_columns(self, io: FileIO, path: str) -> list[str]:
        """Names of the columns in a file, in its order. Raises NotFound, Corrupt."""

    @abstractmethod
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
        """The rows of a file in order, with ``columns`` (None: all) in the requested order.

        ``filter`` drops non-matching rows, and skips parts of the file by statistics if possible. It may use any column
        of the file. ``filter_columns`` are its columns, if known; they are read first, and the others only for matching
        rows. ``fields`` are the columns of the file's schema. Their types apply to the columns of the same names. ORC
        and Avro need them to distinguish a TIME or a TINYINT from an INT, and the units of timestamps. Without them
        the batches have the types in the file. Raises NotFound, Corrupt (another format, or a missing column),
        UnsupportedFeature.
        """

    @abstractmethod
    def write(
        self,
        io: FileIO,
        path: str,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        compression: str = "zstd",
        level: int | None = 1,
    ) -> int:
        """Writes a new file and returns its bytes; ``schema`` may carry field ids (``paimon.types.arrow.file_schema``).

        Batches have the columns of ``schema`` in its order. If the write fails, it leaves no file. Raises
        UnsupportedFeature for a compression or a type that the format does not support.
        """


def select_columns(path: str, known: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The columns to read. Raises Corrupt if the file lacks one."""
    if columns is None:
        return list(known)
    for name in columns:
        if name not in known:
            raise Corrupt(f"data file '{path}' has no column '{name}'; it has: {', '.join(known)}")
    return list(columns)


@contextlib.contextmanager
def read_errors(path: str, format_name: str) -> Iterator[None]:
    """Context that reads a file; Arrow's errors become Corrupt, those of the storage Unavailable."""
    try:
        yield
    except (pa.ArrowNotImplementedError, pa.ArrowMemoryError) as why:
        raise UnsupportedFeature(f"'{path}' cannot be read as {format_name}: {why}") from None
    except (pa.ArrowException, UnicodeDecodeError) as why:
        raise Corrupt(f"'{path}' is not a valid {format_name} file: {why}") from None
    except OSError as why:
        if why.errno is None:
            raise Corrupt(f"'{path}' is not a valid {format_name} file: {why}") from None
        raise Unavailable(f"'{path}' cannot be read: {why}") from why


@contextlib.contextmanager
def corrupt_file(path: str) -> Iterator[None]:
    """Context whose Corrupt names the file."""
    try:
        yield
    except Corrupt as why:
        if path in str(why):
            raise
        raise Corrupt(f"'{path}' cannot be read: {why}") from None


def limited(path: str, packed: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a file of ``packed`` bytes. Raises Corrupt if they take more than any real file.

    The reader makes batches of bounded memory; this bounds what its callers may hold of them.
    """
    left = most = max(_SMALL_FILE_BYTES, _MOST_RATIO * packed)
    for batch in batches:
        left -= batch.nbytes
        if left < 0:
            raise Corrupt(f"'{path}' has {packed} bytes and unpacks to more than {most}, as no data file does")
        yield batch


def create_file(io: FileIO, path: str, write: Callable[[pa.NativeFile], None]) -> int:
    """Writes a new file with ``write`` and returns its bytes; deletes it after an error."""
    try:
        with io.open_output(path) as sink:
            write(sink)
            size = int(sink.tell())  # known before the file is closed, which makes it durable
    except BaseException:
        io.delete(path)
        raise
    return size


def matching_rows(
    batches: Iterable[pa.RecordBatch], filter: pc.Expression | None, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """The matching rows of batches, with the columns ``columns``."""
    for batch in batches:
        rows = batch if filter is None else filter_rows(batch, filter)
        if rows.num_rows:
            yield rows.select(columns)


def filter_rows(batch: pa.RecordBatch, filter: pc.Expression) -> pa.RecordBatch:
    """The rows of a batch that match."""
    table = pa.Table.from_batches([batch]).filter(filter).combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else batch.slice(0, 0)


def with_types(batch: pa.RecordBatch, fields: Sequence[DataField] | None, blank_padded: bool = False) -> pa.RecordBatch:
    """The batch with the types of ``fields`` for the columns of the same names, and without metadata.

    ``blank_padded`` removes the blanks that a format appends to CHAR values.
    """
    if not batch.num_columns:
        # made anew, it would lose its number of rows
        return batch
    by_name = {f.name: f for f in fields or ()}
    arrays, made = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        known = by_name.get(field.name)
        if known is not None:
            target = arrow_type(known.type)
            # Arrow compares types without the mark of a VARIANT
            if blank_padded or column.type != target or has_variant(target):
                column = _as_type(column, known.type, blank_padded)
        arrays.append(column)
        made.append(pa.field(field.name, column.type, field.nullable))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(made))


def _as_type(column: pa.Array, kind: DataType, blank_padded: bool) -> pa.Array:
    """The values as Arrow's type of ``kind``; parts of rows are found by name."""
    target = arrow_type(kind)
    if isinstance(kind, AtomicType):
        if kind.root == "VARIANT":
            return _as_variant(column)
        padded = blank_padded and kind.root == "CHAR"
        if column.type != target:
            # a file may have a finer unit than the type; the digits beyond the type's are zeros
            both = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target)
            column = column.cast(target, safe=not (both and target.unit != "ns"))
        return pc.utf8_rtrim(column, characters=" ") if padded else column
    mask = column.is_null() if column.null_count else None
    if isinstance(kind, RowType):
        indexes = [column.type.get_field_index(f.name) for f in kind.fields]
        if -1 in indexes:
            raise Corrupt(
                f"a row in the file has no field '{kind.fields[indexes.index(-1)].name}': it has {column.type}"
            )
        columns = column.flatten()
        parts = [_as_type(columns[at], f.type, blank_padded) for at, f in zip(indexes, kind.fields, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    if isinstance(kind, ArrayType):
        offsets, start, stop = fresh_offsets(column)
        values = _as_type(column.values.slice(start, stop - start), kind.element, blank_padded)
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
    if not isinstance(kind, MapType):
        # the count of an element in a multiset
        kind = MapType(cast("MultisetType", kind).element, AtomicType("INT", False))
    offsets, start, stop = fresh_offsets(column)
    keys = _as_type(column.keys.slice(start, stop - start), kind.key, blank_padded)
    items = _as_type(column.items.slice(start, stop - start), kind.value, blank_padded)
    return map_array(offsets, keys, items, target, mask)


def _as_variant(column: pa.Array) -> pa.Array:
    """A VARIANT column of a file, whose parts have any order."""
    names = [part.name for part in column.type] if pa.types.is_struct(column.type) else []
    if sorted(names) != ["metadata", "value"]:
        if "typed_value" in names:
            raise UnsupportedFeature(
                "a VARIANT column of a file is shredded: its values lie in columns of their own ('typed_value'). Write "
                "the table again without 'variant.shreddingSchema' and 'variant.inferShreddingSchema'"
            )
        raise Corrupt(f"a VARIANT column of a file is {column.type}, not a value and its metadata")
    parts = [column.field(part.name).cast(part.type) for part in VARIANT]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=mask)
