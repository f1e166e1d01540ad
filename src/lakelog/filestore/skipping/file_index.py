"""File indexes, written with a data file and checked before a read (Paimon's file index ``bloom-filter``)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.errors import Corrupt, NotFound
from lakelog.filestore.metadata.paths import named_file
from lakelog.filestore.skipping.predicate import Predicate, equal_values
from lakelog.filestore.skipping.pruning import exact_column
from lakelog.io.storage.file_io import FileIO
from lakelog.options.file_index import INDEX_IN_MANIFEST, bloom_columns
from lakelog.options.option import Options
from lakelog.paimon.index.bloom_filter import BloomFilter, hash_values
from lakelog.paimon.index.file_index import (
    BLOOM_FILTER,
    INDEX_SUFFIX,
    IndexLocation,
    encode_file_index,
    read_file_index,
)
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_type


@dataclass(frozen=True)
class FileIndexWriter:
    """The indexes of one data file during its write; empty for tables without file indexes."""

    schema: TableSchema
    filters: dict[str, BloomFilter]

    @staticmethod
    def of(schema: TableSchema) -> FileIndexWriter:
        """Raises InvalidOption, InvalidSchema for an unknown column, UnsupportedFeature for an unsupported type.

        CREATE TABLE and ALTER TABLE call it, too, to validate the options before the first write.
        """
        filters = {}
        for bloom in bloom_columns(schema.options):
            (field,) = schema.select([bloom.column])
            hash_values(pa.nulls(0, arrow_type(field.type)), field.type)
            filters[bloom.column] = BloomFilter.sized(bloom.items, bloom.fpp)
        return FileIndexWriter(schema, filters)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows of the file."""
        for name, filter in self.filters.items():
            filter.add(hash_values(batch.column(name), self.schema.field(name).type))

    def finish(self, io: FileIO, path: str, meta: DataFileMeta) -> DataFileMeta:
        """The metadata of the finished file at ``path``, with its index embedded or in a separate file."""
        if not self.filters:
            return meta
        data = encode_file_index({name: {BLOOM_FILTER: filter.to_bytes()} for name, filter in self.filters.items()})
        if len(data) <= int(Options(self.schema.options).need(INDEX_IN_MANIFEST)):
            return replace(meta, embedded_file_index=data)
        io.write(path + INDEX_SUFFIX, data)
        return replace(meta, extra_files=(*meta.extra_files, meta.file_name + INDEX_SUFFIX))


def may_have_rows(io: FileIO, path: str, file: DataFileMeta, written: TableSchema, filter: Predicate) -> bool:
    """Returns whether a data file may have matching rows, by its index; True without an index.

    ``path`` is the data file, ``filter`` has the column names of ``written``, the file's schema. Called before a file
    is opened, only if non-matching rows may be skipped. A missing, damaged or unsupported index is ignored.
    """
    columns = {}
    for name in filter.columns:
        values = equal_values(filter, name)
        kind = written.field(name).type
        column = None if values is None else exact_column([v for v in values if v is not None], arrow_type(kind))
        if column is not None:
            columns[name] = column
    if not columns or not _has_index(file):
        return True
    with contextlib.suppress(Corrupt, NotFound), _index_bytes(io, path, file) as read:
        return all(
            _filter_at(kinds[BLOOM_FILTER], read).may_have_any(hash_values(columns[name], written.field(name).type))
            for name, kinds in read_file_index(read).items()
            if name in columns and BLOOM_FILTER in kinds
        )
    return True


def _has_index(file: DataFileMeta) -> bool:
    return file.embedded_file_index is not None or any(name.endswith(INDEX_SUFFIX) for name in file.extra_files)


@contextlib.contextmanager
def _index_bytes(io: FileIO, path: str, file: DataFileMeta) -> Iterator[Callable[[int, int], bytes]]:
    embedded = file.embedded_file_index
    if embedded is not None:
        yield lambda start, length: embedded[start : start + length]
        return
    name = next(name for name in file.extra_files if name.endswith(INDEX_SUFFIX))
    with io.open_input(named_file(path.rpartition("/")[0], "_EXTRA_FILES of a manifest", name)) as source:

        def read(start: int, length: int) -> bytes:
            source.seek(start)
            return bytes(source.read(length))

        yield read


def _filter_at(location: IndexLocation, read: Callable[[int, int], bytes]) -> BloomFilter:
    """The filter of a column; a column without any value has an empty one."""
    return (
        BloomFilter.sized(1, 0.5)
        if location.start is None
        else BloomFilter.from_bytes(read(location.start, location.length))
    )
