"""Changelog files: the changes of a bucket's rows, in addition to its data files (format sheet 6.1, 9).

They have the columns and directories of data files, but only the changelog manifest list of their snapshot references
them. They are sorted by key, and a key may have several rows in the order of the changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakelog.filestore.write.data_file_writer import DataFileWriter, FileStyle, data_style
from lakelog.merge.base import Mask
from lakelog.merge.changes import change_rows, compared_columns
from lakelog.options.changelog import (
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
)
from lakelog.options.option import Options
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, DataFileMeta

_HELD_BYTES: Final = 64 << 20
"""Maximum bytes of changelog rows that a compaction buffers before it writes a file."""


def changelog_style(options: Options, level: int) -> FileStyle:
    """The style of changelog files, which defaults to that of the level's data files, without indexes.

    Raises InvalidOption for an invalid value.
    """
    data = data_style(options, level)
    return FileStyle(
        options.need(CHANGELOG_FILE_PREFIX),
        options.get_typed(CHANGELOG_FILE_FORMAT) or data.format,
        options.get_typed(CHANGELOG_FILE_COMPRESSION) or data.compression,
        options.get_typed(CHANGELOG_FILE_STATS_MODE) or data.stats_mode,
        has_index=False,
    )


def copied_changelog(data_writer: DataFileWriter, files: Sequence[DataFileMeta]) -> list[DataFileMeta] | None:
    """Changelog files as copies of data files; None if the options write the two in different styles.

    Called by a flush with unique keys, whose two kinds of files have the same rows. A copy is cheaper than encoding.
    """
    options = Options(data_writer.paths.schema.options)
    style, data = changelog_style(options, data_writer.level), data_style(options, data_writer.level)
    if replace(style, prefix=data.prefix, has_index=data.has_index) != data:
        return None
    out: list[DataFileMeta] = []
    for file in files:
        ending = file.file_name.rpartition(data_writer.names.uuid)[2].partition(".")[2]
        copy = replace(
            file,
            file_name=data_writer.names.next(style.prefix, f".{ending}"),
            file_source=APPEND_SOURCE,
            extra_files=(),
            embedded_file_index=None,
            external_path=None,
        )
        source, target = (
            data_writer.paths.data_file(data_writer.partition, data_writer.bucket, f) for f in (file, copy)
        )
        data_writer.io.write(target, data_writer.io.read(source))
        out.append(copy)
    return out


def changelog_writer(data_writer: DataFileWriter) -> DataFileWriter:
    """A writer of changelog files with the same bucket, level and name counter as a writer of data files.

    Called by a flush (producer ``input``) and by compactions. Its ``write`` takes rows in key order, with several per
    key allowed. The caller adds the metadata to ``BucketFiles.changelog_files``. The format counts all as appended.
    """
    return DataFileWriter(
        data_writer.io,
        data_writer.paths,
        data_writer.partition,
        data_writer.bucket,
        data_writer.level,
        APPEND_SOURCE,
        data_writer.one_file,
        changelog_style(Options(data_writer.paths.schema.options), data_writer.level),
        data_writer.names,
    )


class CompactionChanges:
    """The changelog of a compaction: collects the changes of keys, in key order, and writes them as changelog files.

    ``data_writer`` is the writer of the compaction's data files.
    """

    def __init__(self, data_writer: DataFileWriter) -> None:
        self._writer = changelog_writer(data_writer)
        self._compared = compared_columns(data_writer.paths.schema)
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._written: list[DataFileMeta] = []

    def add(self, before: pa.Table, after: pa.Table, has_before: Mask, has_after: Mask) -> None:
        """Adds the old and new rows of keys; see ``merge.changes.change_rows``."""
        rows = change_rows(before, after, has_before, has_after, self._compared)
        self._held += rows.to_batches()
        self._bytes += rows.nbytes
        if self._bytes > _HELD_BYTES:
            self._write()

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Writes the buffered rows and returns the metadata of all files, in key order; empty without changes."""
        self._write()
        return tuple(self._written)

    def _write(self) -> None:
        batches, self._held, self._bytes = self._held, [], 0
        self._written += self._writer.write(batches)
