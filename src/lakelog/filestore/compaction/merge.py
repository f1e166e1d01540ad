"""Merge strategy of a compaction: lookups, and files that change their level without a rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.filestore.compaction.bucket_vectors import BucketVectors
from lakelog.filestore.compaction.lookup_merge import LookupMerge, OldestRowLookup, OnChanges, TopLevelChanges
from lakelog.filestore.compaction.planner import CompactionTask
from lakelog.filestore.compaction.upper_levels import UpperFiles
from lakelog.filestore.read.changes import producer_of
from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.filestore.read.split_reader import engine_of, files_engine_of
from lakelog.filestore.write.changelog_writer import CompactionChanges
from lakelog.filestore.write.data_file_writer import DataFileWriter
from lakelog.merge.base import MergeEngine
from lakelog.merge.lowest_level import LowestLevel
from lakelog.merge.table_rules import needs_lookup
from lakelog.options.changelog import CHANGELOG_PRODUCER
from lakelog.options.option import Options
from lakelog.options.picking import FORCE_REWRITE
from lakelog.options.table import (
    DELETION_VECTORS,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT_PER_LEVEL,
    levels_of,
)
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.schema.schema import TableSchema

LOOKUP: Final = "lookup"
FULL_COMPACTION: Final = "full-compaction"
"""Changelog producers whose changes compactions write."""


@dataclass(frozen=True)
class CompactionMerge:
    """The merge of one task; ``takes_levels`` requests runs with their level (``merge.lowest_level``).

    Files of levels below ``sees_below`` pass through it even without a rewrite, for its lookups and changelog.
    """

    engine: MergeEngine
    takes_levels: bool
    task: CompactionTask
    schema: TableSchema
    sees_below: int = 0

    @staticmethod
    def of(
        files: DataFileReader, task: CompactionTask, vectors: BucketVectors, changes: CompactionChanges | None
    ) -> CompactionMerge:
        """The merge of a task; ``changes`` collects its changelog, if any.

        Raises InvalidOption for engine options that are incompatible with the columns.
        """
        schema, level = files.paths.schema, task.output_level
        options = Options(schema.options)
        on_changes = None if changes is None else changes.add
        engine = files_engine_of(schema)
        if on_changes is not None and options.need(CHANGELOG_PRODUCER) == FULL_COMPACTION:
            if task.reaches_top_level:
                return CompactionMerge(TopLevelChanges(engine, level, on_changes), True, task, schema, sees_below=level)
            on_changes = None
        if not needs_lookup(options) or all(f.level > 0 for f in task.files):
            return CompactionMerge(engine, isinstance(engine, LowestLevel), task, schema)
        made = _lookup_engine(files, task, vectors, on_changes)
        return CompactionMerge(made, True, task, schema, sees_below=1 if task.upper_files or on_changes else 0)

    def must_see(self, file: DataFileMeta) -> bool:
        """Returns whether the rows of a file without a rewrite must pass through the merge."""
        return file.level < self.sees_below

    def must_rewrite(self, file: DataFileMeta) -> bool:
        """Returns whether a file must be rewritten for the output level.

        Its format or compression may differ from the level's. Rows of level 0 must become complete values, unless they
        already are or no level above has files.
        """
        options = Options(self.schema.options)
        if options.need(FORCE_REWRITE):
            return True
        for option in (FILE_FORMAT_PER_LEVEL, FILE_COMPRESSION_PER_LEVEL):
            by_level = levels_of(option, options)
            if by_level.get(file.level) != by_level.get(self.task.output_level):
                return True
        if file.level != 0 or self.task.reaches_top_level or not needs_lookup(options):
            return False
        return not engine_of(self.schema).number_decides


def _lookup_engine(
    files: DataFileReader, task: CompactionTask, vectors: BucketVectors, on_changes: OnChanges | None
) -> MergeEngine:
    schema = files.paths.schema
    options = Options(schema.options)
    deleted = vectors.deleted(f.file_name for f in task.upper_files)
    upper = UpperFiles(files, task.partition, task.bucket, task.upper_files, deleted)
    inner = engine_of(schema)
    if inner.oldest_wins:
        return OldestRowLookup(inner, upper.finder(with_rows=False), on_changes)
    marks = options.need(DELETION_VECTORS)
    # if vectors hide the old rows, only a changelog and engines that combine or may prefer old rows need them
    needs_rows = on_changes is not None or not marks or not inner.number_decides
    return LookupMerge(inner, upper.finder(needs_rows), needs_rows, vectors.delete if marks else None, on_changes)


def compaction_changes(writer: DataFileWriter) -> CompactionChanges | None:
    """The changelog collector of a compaction; None for tables whose compactions write no changelog."""
    schema = writer.paths.schema
    tells = schema.is_keyed and producer_of(schema) in (LOOKUP, FULL_COMPACTION)
    return CompactionChanges(writer) if tells else None
