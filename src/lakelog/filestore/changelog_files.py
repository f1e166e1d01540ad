"""Changelog files: what happened to the rows of a bucket, beside its data files (format sheet 6.1, 9).

They have the columns of data files and lie in the same directories, but only the changelog manifest list of the
snapshot that made them names them. They are sorted by key; a key may have several rows, in the order of the changes.
"""

from __future__ import annotations

from lakelog.filestore.data_file_writer import DataFileWriter, FileStyle, data_style
from lakelog.options.option import Options
from lakelog.options.table import (
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
)
from lakelog.spec.data_file import APPEND_SOURCE


def changelog_style(options: Options, level: int) -> FileStyle:
    """The style of changelog files; what is not given for them is as in data files of the level.

    Raises InvalidOption for a value that an option does not have.
    """
    data = data_style(options, level)
    return FileStyle(
        options.need(CHANGELOG_FILE_PREFIX),
        options.get_typed(CHANGELOG_FILE_FORMAT) or data.format,
        options.get_typed(CHANGELOG_FILE_COMPRESSION) or data.compression,
        options.get_typed(CHANGELOG_FILE_STATS_MODE) or data.stats_mode,
    )


def changelog_writer(beside: DataFileWriter) -> DataFileWriter:
    """A writer of changelog files that go with the data files of another writer: same bucket, level and names' counter.

    Called by a flush (producer ``input``) and by compactions. Its ``write`` takes rows in key order, several of one key
    allowed; the metas belong into ``BucketFiles.changelog_files``. The format counts them all as appended.
    """
    return DataFileWriter(
        beside.io,
        beside.paths,
        beside.partition,
        beside.bucket,
        beside.level,
        APPEND_SOURCE,
        beside.one_file,
        changelog_style(Options(beside.paths.schema.options), beside.level),
        beside.names,
    )
