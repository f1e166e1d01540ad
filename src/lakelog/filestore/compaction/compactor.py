"""Runs a compaction task in bounded memory; files without a rewrite only change their level (format sheet 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakelog.filestore.compaction.bucket_vectors import BucketVectors
from lakelog.filestore.compaction.kept_apart import KeptApart
from lakelog.filestore.compaction.merge import CompactionMerge, compaction_changes
from lakelog.filestore.compaction.planner import CompactionResult, CompactionTask
from lakelog.filestore.compaction.record_expiry import RecordExpiry
from lakelog.filestore.compaction.strategy import is_small
from lakelog.filestore.metadata.levels import KeyRange, Section, has_deletes, is_apart, sections
from lakelog.filestore.read.data_file_reader import DataFileReader, merge_batch_rows
from lakelog.filestore.read.deletion_vectors import vector_of
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.write.data_file_writer import DataFileWriter, target_file_size
from lakelog.io.metrics import METER, Step
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN
from lakelog.merge.lowest_level import PARTS_LEVEL, with_level
from lakelog.merge.output import Output
from lakelog.merge.runs import merge_runs
from lakelog.options.option import Options
from lakelog.options.table import DELETION_VECTORS
from lakelog.paimon.metadata.data_file import COMPACT_SOURCE, BucketFiles, DataFileMeta


@dataclass
class Compactor:
    """Runs tasks for one table."""

    files: DataFileReader

    def run_compaction(self, task: CompactionTask) -> CompactionResult:
        """Writes the new files of a task and returns the changes to commit.

        Sections of one run whose files are large and need no rewrite are only moved to the output level. Called by the
        writer, a job or the service. Nothing is visible before the commit. Raises NotFound if a concurrent compaction
        won and expiry removed the files of the task.
        """
        paths = self.files.paths
        writer = DataFileWriter(self.files.io, paths, task.partition, task.bucket, task.output_level, COMPACT_SOURCE)
        vectors = BucketVectors(self.files.io, paths, task.partition, task.bucket, task.vector_files)
        name = f"bucket {task.bucket} of {paths.name}"
        with METER.step("merge", "rows", sum(file.row_count for file in task.files), bucket=name) as step:
            run = _Run(self.files, task, writer, vectors, step)
            result = run.keyed() if paths.schema.is_keyed else run.appended()
            step.set(runs=len({file.level or file.file_name for file in task.files}), files=len(task.files))
        kept = {f.file_name for f in result.moved if f.level == task.output_level}
        files = BucketFiles(
            task.partition,
            task.bucket,
            task.total_buckets,
            new_files=(
                *(f.at_level(task.output_level) for f in result.moved if f.file_name not in kept),
                *result.written,
            ),
            deleted_files=tuple(f for f in task.files if f.file_name not in kept),
            changelog_files=result.changelog,
        )
        if not Options(paths.schema.options).need(DELETION_VECTORS) and not task.vector_files:
            return CompactionResult(files)
        moved = {f.file_name for f in result.moved}
        return CompactionResult(files, vectors.change(f.file_name for f in task.files if f.file_name not in moved))


@dataclass
class _Result:
    """Moved or unchanged files, written files and changelog files."""

    moved: list[DataFileMeta] = field(default_factory=list)
    written: list[DataFileMeta] = field(default_factory=list)
    changelog: tuple[DataFileMeta, ...] = ()


class _Run:
    def __init__(
        self,
        files: DataFileReader,
        task: CompactionTask,
        writer: DataFileWriter,
        vectors: BucketVectors,
        step: Step,
    ) -> None:
        self._files, self._task, self._writer, self._vectors, self._step = files, task, writer, vectors, step
        self._schema = files.paths.schema
        now = partial(storage_now_ms, files.io, files.paths.root)
        self._expiry = RecordExpiry.of(self._schema, now) if task.drop_deletes else None
        self._keeps_deletes = self._schema.is_keyed and engine_of(self._schema).keeps_deleted_keys
        self._apart = KeptApart.of(self._schema, task)
        self._columns = self._schema.field_names

    def keyed(self) -> _Result:
        result = _Result()
        waiting: list[Section] = []
        changes = compaction_changes(self._writer)
        merge = CompactionMerge.of(self._files, self._task, self._vectors, changes)
        target = target_file_size(self._schema)
        for section in sections(self._task.files, KeyRange.of(self._schema)):
            file = section.files[0]
            if len(section.files) > 1 or is_small(file, target) or self._must_change(file, merge):
                waiting.append(section)
                continue
            self._finish(waiting, merge, result)
            waiting = []
            self._move(section, merge, result)
        self._finish(waiting, merge, result)
        result.changelog = () if changes is None else changes.finish()
        if self._apart is not None:
            result.written += self._apart.write(self._writer, self._expiry)
        return result

    def appended(self) -> _Result:
        return _Result([], self._writer.write(self._rows(self._task.files, merge_batch_rows([self._task.files]))))

    def _finish(self, waiting: Sequence[Section], merge: CompactionMerge, result: _Result) -> None:
        """Merges sections into new files; a single small file is not rewritten."""
        if len(waiting) == 1 and len(waiting[0].files) == 1 and not self._must_change(waiting[0].files[0], merge):
            self._move(waiting[0], merge, result)
        elif waiting:
            result.written += self._writer.write(self._merged(waiting, merge))

    def _move(self, section: Section, merge: CompactionMerge, result: _Result) -> None:
        """Moves the file of a section without a rewrite, but looks up the rows that it replaces."""
        result.moved += section.files
        if merge.must_see(section.files[0]):
            for _ in self._merged([section], merge):
                pass

    def _merged(self, parts: Sequence[Section], merge: CompactionMerge) -> Iterator[pa.RecordBatch]:
        """The rows of sections; drops deletes and expired rows only if no older rows of their keys remain."""
        columns = (*self._columns, SEQUENCE_COLUMN, KIND_COLUMN)
        output = Output(columns, with_deletes=not self._task.drop_deletes or self._keeps_deletes)
        engine = merge.engine if self._apart is None else self._apart.engine(merge.engine)
        for section in parts:
            chosen = section.runs(KeyRange.of(self._schema))
            batch_rows = merge_batch_rows(chosen)
            runs = [self._run(files, merge, batch_rows) for files in chosen]
            for batch in merge_runs(runs, self._schema.trimmed_primary_keys, engine, output):
                yield batch if self._expiry is None else self._expiry.kept(batch)

    def _run(self, files: Sequence[DataFileMeta], merge: CompactionMerge, batch_rows: int) -> Iterator[pa.RecordBatch]:
        rows = self._rows(files, batch_rows)
        level = PARTS_LEVEL if files[0].level == 0 and is_apart(files[0]) else files[0].level
        return (with_level(batch, level) for batch in rows) if merge.takes_levels else rows

    def _rows(self, files: Sequence[DataFileMeta], batch_rows: int) -> Iterator[pa.RecordBatch]:
        task = self._task
        for file in files:
            vector = vector_of(self._vectors.refs, file.file_name)
            for batch in self._files.read(
                task.partition, task.bucket, file, self._columns, True, vector=vector, batch_rows=batch_rows
            ):
                self._step.advance(batch.num_rows)
                yield batch

    def _must_change(self, file: DataFileMeta, merge: CompactionMerge) -> bool:
        task = self._task
        if (
            task.drop_deletes
            and has_deletes(file)
            and (not self._keeps_deletes or (self._apart is not None and self._apart.parts_deletes))
        ):
            return True
        if task.purges_deletes and vector_of(self._vectors.refs, file.file_name) is not None:
            return True
        return merge.must_rewrite(file) or (self._expiry is not None and self._expiry.has_old(file))
