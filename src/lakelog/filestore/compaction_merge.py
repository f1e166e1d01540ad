"""How the runs of a compaction are merged: what is looked up, and which files may change their level as they are."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.bucket_vectors import BucketVectors
from lakelog.filestore.compaction import CompactionTask
from lakelog.filestore.data_file_reader import DataFileReader
from lakelog.filestore.levels import highest_level
from lakelog.filestore.lookup_merge import FirstRowLookup, LookupMerge
from lakelog.filestore.reader import engine_of, files_engine_of
from lakelog.filestore.upper_levels import UpperFiles
from lakelog.merge.base import MergeEngine
from lakelog.merge.lowest_level import LowestLevel
from lakelog.options.option import Options
from lakelog.options.table import (
    DELETION_VECTORS,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT_PER_LEVEL,
    MERGE_ENGINE,
    levels_of,
    needs_lookup,
)
from lakelog.spec.data_file import DataFileMeta
from lakelog.spec.schema import TableSchema


@dataclass(frozen=True)
class CompactionMerge:
    """The merge of one task; ``takes_levels`` asks for runs with their level (``merge.lowest_level``)."""

    engine: MergeEngine
    takes_levels: bool
    looks_up: bool
    schema: TableSchema
    output_level: int

    @staticmethod
    def of(files: DataFileReader, task: CompactionTask, vectors: BucketVectors) -> CompactionMerge:
        """Called once for each task. Raises InvalidOption for options of the engine that do not fit the columns."""
        schema = files.paths.schema
        options = Options(schema.options)
        has_new = any(f.level == 0 for f in task.files)
        if not needs_lookup(options) or not has_new:
            engine = files_engine_of(schema)
            return CompactionMerge(engine, isinstance(engine, LowestLevel), False, schema, task.output_level)
        deleted = vectors.deleted(f.file_name for f in task.upper_files)
        upper = UpperFiles(files, task.partition, task.bucket, task.upper_files, deleted)
        inner = engine_of(schema)
        if options.need(MERGE_ENGINE) == "first-row":
            first = FirstRowLookup(inner, upper.finder(with_rows=False))
            return CompactionMerge(first, True, bool(task.upper_files), schema, task.output_level)
        marks = options.need(DELETION_VECTORS)
        # where vectors hide the old rows, only an engine that makes new rows of them, or may prefer them, needs them
        needs_rows = not marks or not keeps_newest(inner, options)
        made = LookupMerge(inner, upper.finder(needs_rows), needs_rows, vectors.delete if marks else None)
        return CompactionMerge(made, True, bool(task.upper_files), schema, task.output_level)

    def must_see(self, file: DataFileMeta) -> bool:
        """Whether the rows of a file that is not written again must go through the merge, for what it looks up."""
        return self.looks_up and file.level == 0

    def must_rewrite(self, file: DataFileMeta) -> bool:
        """Whether a file cannot go to the output level as it is.

        Its format or compression may not be that of the level. Rows of level 0 must become whole values on their way
        up, unless they are that already or nothing is above.
        """
        options = Options(self.schema.options)
        for option in (FILE_FORMAT_PER_LEVEL, FILE_COMPRESSION_PER_LEVEL):
            given = levels_of(option, options)
            if given.get(file.level) != given.get(self.output_level):
                return True
        if file.level != 0 or self.output_level == highest_level(self.schema) or not needs_lookup(options):
            return False
        return not keeps_newest(engine_of(self.schema), options)


def keeps_newest(engine: MergeEngine, options: Options) -> bool:
    """Whether the newest row by number is the value of its key, whatever was there before."""
    return options.need(MERGE_ENGINE) == "deduplicate" and not engine.sequence_fields
