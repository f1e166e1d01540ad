"""Writes sorted rows as data files of about the target size (format sheet 6)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat import FILE_FORMATS
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.skipping.file_index import FileIndexWriter
from lakelog.filestore.write.file_stats import FileStats
from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.merge.table_rules import check_writable, engine_class
from lakelog.options.changelog import CHANGELOG_FILE_COMPRESSION, CHANGELOG_FILE_FORMAT
from lakelog.options.option import Option, Options
from lakelog.options.table import (
    DATA_FILE_PREFIX,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FILE_SUFFIX_COMPRESSION,
    STATS_MODE,
    STATS_MODE_PER_LEVEL,
    TARGET_FILE_SIZE,
    THIN_MODE,
    ZSTD_LEVEL,
    levels_of,
)
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, DataFileMeta
from lakelog.paimon.schema.schema import KEY_PREFIX, TableSchema, file_fields
from lakelog.paimon.types.arrow import arrow_schema, file_schema
from lakelog.paimon.types.variant import has_variant

_CHUNK_ROWS: Final = 1 << 18
_CHUNK_BYTES: Final = 64 << 20
"""Maximum bytes of rows per write to the format."""
_JOINED_ROWS: Final = 1 << 14
"""Batches with fewer rows are merged, because statistics have a cost per batch."""
_CHECKED_ROWS: Final = 1000
"""Rows between two checks of a small target size."""
_FIRST_RATIO: Final = 0.5
"""Bytes in the file per byte in memory, until the first file allows a measurement."""


def target_file_size(schema: TableSchema) -> int:
    """The size at which a new data file begins; default: 128 MiB with a primary key, 256 MiB without."""
    size = Options(schema.options).get_typed(TARGET_FILE_SIZE)
    return size if size is not None else (128 << 20) if schema.is_keyed else (256 << 20)


@dataclass(frozen=True)
class FileStyle:
    """The names and encoding of files of one kind at one level, from the table's options.

    ``has_index`` is True if the table's file indexes are written.
    """

    prefix: str
    format: str
    compression: str
    stats_mode: str
    has_index: bool = True


def data_style(options: Options, level: int) -> FileStyle:
    """The style of data files. Raises InvalidOption for an invalid value."""
    return FileStyle(
        options.need(DATA_FILE_PREFIX),
        _of_level(FILE_FORMAT, FILE_FORMAT_PER_LEVEL, options, level),
        _of_level(FILE_COMPRESSION, FILE_COMPRESSION_PER_LEVEL, options, level),
        _of_level(STATS_MODE, STATS_MODE_PER_LEVEL, options, level),
    )


def check_formats(schema: TableSchema) -> None:
    """Checks that the formats of a table's new files support its columns and compressions. Raises UnsupportedFeature.

    Called for CREATE TABLE and ALTER TABLE.
    """
    options = Options(schema.options)
    changelog = options.get_typed(CHANGELOG_FILE_FORMAT), options.get_typed(CHANGELOG_FILE_COMPRESSION)
    levels = {*levels_of(FILE_FORMAT_PER_LEVEL, options), *levels_of(FILE_COMPRESSION_PER_LEVEL, options)}
    styles = {level: data_style(options, level) for level in (-1, *sorted(levels))}
    keys = {style.format: FILE_FORMAT_PER_LEVEL.key for style in styles.values()}
    keys |= {styles[-1].format: FILE_FORMAT.key}
    pairs = {(keys[style.format], style.format, style.compression) for style in styles.values()}
    if any(changelog):
        key = CHANGELOG_FILE_FORMAT.key
        pairs |= {(key, changelog[0] or word, changelog[1] or compression) for _, word, compression in pairs}
    variant = next((f.name for f in arrow_schema(schema.fields) if has_variant(f.type)), None)
    for key, word, compression in sorted(pairs):
        format = FILE_FORMATS.create(word)
        format.check_compression(compression)
        if variant is not None and not format.holds_variant:
            raise UnsupportedFeature(
                f"column '{variant}' has type VARIANT, which '{key}' = '{word}' does not support: use "
                f"'{FILE_FORMAT.default}'"
            )


@dataclass(frozen=True)
class FileNames:
    """File names of one writer, from one UUID and a counter that all kinds of files share."""

    uuid: str = field(default_factory=new_uuid)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def next(self, prefix: str, ending: str) -> str:
        """The name of the next file."""
        return f"{prefix}{self.uuid}-{next(self.numbers)}{ending}"


@dataclass
class DataFileWriter:
    """Writes the files of one bucket at one level; all names contain one UUID and a counter.

    ``one_file`` puts all rows of one ``write`` into one file, however large; ``style`` is that of the table's data
    files at the level unless given. Changelog files are written by ``changelog_files.changelog_writer``.

    Raises UnsupportedFeature, before anything is written, for a table with options that lakelog would not honour.
    """

    io: FileIO
    paths: TablePaths
    partition: bytes
    bucket: int
    level: int = 0
    source: int = APPEND_SOURCE
    one_file: bool = False
    style: FileStyle | None = None
    names: FileNames = field(default_factory=FileNames)
    _ratio: float = _FIRST_RATIO

    def __post_init__(self) -> None:
        check_writable(self.paths.schema.options)
        self._options = Options(self.paths.schema.options)
        self._target = target_file_size(self.paths.schema)
        self._style = self.style or data_style(self._options, self.level)
        FileIndexWriter.of(self.paths.schema)

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFileMeta]:
        """Writes rows (table columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``; keyed tables: sorted, one row per key).

        Returns the metadata of the files, in key order; empty without rows. The files are invisible before a commit.
        """
        chunks = _Peekable(_chunks(batches, self._chunk_bytes))
        out: list[DataFileMeta] = []
        while chunks.has_next():
            out.append(self._write_file(chunks))
        return out

    def _write_file(self, chunks: _Peekable) -> DataFileMeta:
        schema, options, style = self.paths.schema, self._options, self._style
        format_ = FILE_FORMATS.create(style.format)
        suffix = f".{style.compression}" if options.need(FILE_SUFFIX_COMPRESSION) else ""
        name = self.names.next(style.prefix, f"{suffix}.{format_.name}")
        path = f"{self.paths.bucket_dir(self.partition, self.bucket)}/{name}"
        stats = FileStats(schema, style.stats_mode)
        index = FileIndexWriter.of(schema) if style.has_index else FileIndexWriter(schema, {})
        fields = file_fields(schema, options.need(THIN_MODE))
        if schema.is_keyed and engine_class(options).leaves_null:
            folded = set(schema.field_names) - set(schema.primary_keys)
            fields = tuple(replace(f, type=f.type.with_nullable(True)) if f.name in folded else f for f in fields)
        target = arrow_schema(fields)
        size = format_.write(
            self.io,
            path,
            (_in_file_order(chunk, target) for chunk in self._until_full(chunks, stats, index)),
            file_schema(fields),
            style.compression,
            options.need(ZSTD_LEVEL),
        )
        self._ratio = max(size / max(stats.arrow_bytes, 1), 0.01)
        meta = stats.meta(name, size, self.level, self.source, clock.local_now_ms())
        return index.finish(self.io, path, meta)

    def _until_full(self, chunks: _Peekable, stats: FileStats, index: FileIndexWriter) -> Iterator[pa.RecordBatch]:
        while chunks.has_next() and (self.one_file or stats.arrow_bytes * self._ratio < self._target):
            chunk = chunks.next()
            stats.add(chunk)
            index.add(chunk)
            yield chunk

    def _chunk_bytes(self) -> int:
        return max(1, min(_CHUNK_BYTES, int(self._target / self._ratio / 4)))


def _of_level(whole: Option[str], per_level: Option[str], options: Options, level: int) -> str:
    """An option's value for the files of a level. Raises InvalidOption for an invalid value."""
    given = levels_of(per_level, options).get(level)
    return options.need(whole) if given is None else whole.parse(given)


def _in_file_order(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The columns of a data file, with the copies of the key columns."""
    return pa.RecordBatch.from_arrays(
        [batch.column(name.removeprefix(KEY_PREFIX)) for name in target.names], schema=target
    )


class _Peekable:
    """An iterator with a check for further items."""

    def __init__(self, chunks: Iterator[pa.RecordBatch]) -> None:
        self._chunks = chunks
        self._held: pa.RecordBatch | None = None

    def has_next(self) -> bool:
        if self._held is None:
            self._held = next(self._chunks, None)
        return self._held is not None

    def next(self) -> pa.RecordBatch:
        item, self._held = self._held, None
        return item


def _chunks(batches: Iterable[pa.RecordBatch], chunk_bytes: Callable[[], int]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of suitable size: small ones merged, large ones split."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        limit = chunk_bytes()
        step = max(_CHECKED_ROWS, min(_CHUNK_ROWS, limit * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            held.append(part)
            rows += part.num_rows
            size += part.nbytes
            if size >= limit or rows >= min(step, _JOINED_ROWS):
                yield from _one_batch(held)
                held, rows, size = [], 0, 0
    if held:
        yield from _one_batch(held)


def _one_batch(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch, or a few if a text column exceeds 2 GiB."""
    return parts if len(parts) == 1 else list(pa.Table.from_batches(parts).combine_chunks().to_batches())
