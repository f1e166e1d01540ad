"""Runs a compaction task: bounded memory, files that need no rewrite only change their level (format sheet 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.compaction import CompactionTask, is_small, pick_runs, pick_small_files
from lakelog.filestore.compaction_result import CompactionResult
from lakelog.filestore.data_file_reader import DataFileReader
from lakelog.filestore.data_file_writer import DataFileWriter, target_file_size
from lakelog.filestore.levels import KeyRange, Section, has_deletes, sections, sorted_runs
from lakelog.filestore.reader import engine_of
from lakelog.filestore.record_expiry import RecordExpiry
from lakelog.filestore.scan import skips_level_zero
from lakelog.merge.base import KIND_COLUMN
from lakelog.merge.runs import merge_runs
from lakelog.options.option import Options
from lakelog.options.table import COMPACTION_MIN_FILES
from lakelog.spec.data_file import COMPACT_SOURCE, BucketFiles, DataFileMeta
from lakelog.spec.manifest import ManifestEntry
from lakelog.spec.row_kind import INSERT, UPDATE_AFTER
from lakelog.spec.schema import TableSchema


def pick_compaction(entries: Sequence[ManifestEntry], schema: TableSchema, full: bool = False) -> CompactionTask | None:
    """What to compact in one bucket, given its live files; None when there is nothing to do. Pure."""
    if not entries:
        return None
    first, files = entries[0], [e.file for e in entries]
    place = (first.partition, first.bucket, first.total_buckets)
    options = Options(schema.options)
    if not schema.is_keyed:
        ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name))
        small = pick_small_files(ordered, target_file_size(schema), options.need(COMPACTION_MIN_FILES), full)
        return CompactionTask(*place, small, 0, False) if small else None
    runs = sorted_runs(files, KeyRange.of(schema))
    # new files that nobody sees yet cannot wait, and no key may be in two levels that are read without a merge
    urgent = skips_level_zero(schema) and any(f.level == 0 for f in files)
    picked = pick_runs(runs, options, full or urgent)
    if picked is None and full:
        expiry = RecordExpiry.of(schema)
        picked = (len(runs), runs[-1].level) if expiry and any(expiry.has_old(f) for f in files) else None
    if picked is None:
        return None
    count, level = picked
    chosen = tuple(f for run in runs[:count] for f in run.files)
    highest = max(run.level for run in runs)
    return CompactionTask(*place, chosen, level, drop_deletes=level >= highest)


@dataclass
class Compactor:
    """Runs tasks for one table."""

    files: DataFileReader

    def run_compaction(self, task: CompactionTask) -> CompactionResult:
        """Writes the new files of a task and returns what the commit has to change.

        Sections of one run whose files are large and need no change are only moved to the output level. Called by the
        writer, a job or the service; nothing is visible before the commit. Raises NotFound when another compaction
        was faster and expiry removed its files.
        """
        schema = self.files.paths.schema
        writer = DataFileWriter(
            self.files.io, self.files.paths, task.partition, task.bucket, task.output_level, COMPACT_SOURCE
        )
        result = self._run_keyed(task, writer) if schema.is_keyed else self._run_appended(task, writer)
        moved = {f.file_name for f in result.moved if f.level == task.output_level}
        files = BucketFiles(
            task.partition,
            task.bucket,
            task.total_buckets,
            new_files=(
                *(f.at_level(task.output_level) for f in result.moved if f.file_name not in moved),
                *result.written,
            ),
            deleted_files=tuple(f for f in task.files if f.file_name not in moved),
        )
        return CompactionResult(files)

    def _run_keyed(self, task: CompactionTask, writer: DataFileWriter) -> _Result:
        result = _Result([], [])
        waiting: list[Section] = []
        target = target_file_size(self.files.paths.schema)
        expiry = RecordExpiry.of(self.files.paths.schema) if task.drop_deletes else None
        for section in sections(task.files, KeyRange.of(self.files.paths.schema)):
            if (
                len(section.files) > 1
                or is_small(section.files[0], target)
                or _must_change(section.files[0], task, expiry)
            ):
                waiting.append(section)
                continue
            result.written += writer.write(self._merged(task, waiting, expiry))
            waiting = []
            result.moved += section.files
        result.written += writer.write(self._merged(task, waiting, expiry))
        return result

    def _run_appended(self, task: CompactionTask, writer: DataFileWriter) -> _Result:
        return _Result([], writer.write(self._rows(task, task.files)))

    def _merged(
        self, task: CompactionTask, parts: Sequence[Section], expiry: RecordExpiry | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of sections; old ones go only when nothing older of their key is left below."""
        schema = self.files.paths.schema
        engine = engine_of(schema)
        for section in parts:
            runs = [self._rows(task, files) for files in section.runs(KeyRange.of(schema))]
            for batch in merge_runs(runs, schema.trimmed_primary_keys, engine):
                live = _without_deletes(batch) if task.drop_deletes else batch
                yield live if expiry is None else expiry.kept(live)

    def _rows(self, task: CompactionTask, files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        columns = self.files.paths.schema.field_names
        for file in files:
            yield from self.files.read(task.partition, task.bucket, file, columns, system_columns=True)


@dataclass
class _Result:
    """Files that only change their level, and files that were written."""

    moved: list[DataFileMeta] = field(default_factory=list)
    written: list[DataFileMeta] = field(default_factory=list)


def _must_change(file: DataFileMeta, task: CompactionTask, expiry: RecordExpiry | None) -> bool:
    return task.drop_deletes and (has_deletes(file) or (expiry is not None and expiry.has_old(file)))


def _without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = batch.column(KIND_COLUMN)
    return batch.filter(pc.or_(pc.equal(kinds, INSERT), pc.equal(kinds, UPDATE_AFTER)))
