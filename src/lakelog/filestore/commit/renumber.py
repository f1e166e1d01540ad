"""Renumbering of files after a lost race, so that sequence numbers follow the order of commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InternalError
from lakelog.filestore.read.data_file_reader import DataFileReader
from lakelog.filestore.read.plan import BucketKey
from lakelog.filestore.write.changelog_writer import changelog_style
from lakelog.filestore.write.data_file_writer import DataFileWriter
from lakelog.merge.base import SEQUENCE_COLUMN
from lakelog.options.option import Options
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import ManifestEntry


def highest_sequences(live: Iterable[ManifestEntry]) -> dict[BucketKey, int]:
    """The largest sequence number of each (partition, bucket) with files."""
    out: dict[BucketKey, int] = {}
    for entry in live:
        bucket_key = (entry.partition, entry.bucket)
        out[bucket_key] = max(out.get(bucket_key, entry.file.max_sequence_number), entry.file.max_sequence_number)
    return out


@dataclass(frozen=True)
class SequenceRewriter:
    """Rewrites level-0 files with shifted sequence numbers."""

    files: DataFileReader

    def above(self, change: BucketFiles, highest: int | None) -> BucketFiles:
        """The change with all new level-0 rows numbered above ``highest``; unchanged if they already are.

        The rows of its changelog files get the same numbers.
        """
        fresh = [f for f in change.new_files if f.level == 0]
        lowest = min((f.min_sequence_number for f in fresh), default=0)
        if not fresh or highest is None or lowest > highest:
            return change
        shift = highest + 1 - lowest
        return replace(
            change,
            new_files=tuple(
                self.shift(change.partition, change.bucket, f, shift) if f.level == 0 else f for f in change.new_files
            ),
            changelog_files=tuple(
                self.shift(change.partition, change.bucket, f, shift, True) if f.level == 0 else f
                for f in change.changelog_files
            ),
        )

    def shift(
        self, partition: bytes, bucket: int, file: DataFileMeta, shift: int, is_changelog: bool = False
    ) -> DataFileMeta:
        """Writes a copy of a file with ``shift`` added to every sequence number; the original stays."""
        # in the file's own schema, because another schema may lack columns
        written = self.files.schemas.get(file.schema_id)
        files = replace(self.files, paths=replace(self.files.paths, schema=written))
        writer = DataFileWriter(
            files.io,
            files.paths,
            partition,
            bucket,
            file.level,
            APPEND_SOURCE if file.file_source is None else file.file_source,
            one_file=True,
            style=changelog_style(Options(written.options), file.level) if is_changelog else None,
        )
        copies = writer.write(_shifted(files, partition, bucket, file, shift))
        if len(copies) != 1:
            raise InternalError(f"data file '{file.file_name}' became {len(copies)} files while it was renumbered")
        return copies[0]

    def delete(self, change: BucketFiles, but: Sequence[DataFileMeta]) -> None:
        """Deletes the new and changelog files of a change that no snapshot will reference, except ``but``."""
        kept = {f.file_name for f in but}
        for file in (*change.new_files, *change.changelog_files):
            if file.file_name not in kept:
                for path in self.files.paths.with_extra_files(change.partition, change.bucket, file):
                    self.files.io.delete(path)


def _shifted(
    files: DataFileReader, partition: bytes, bucket: int, file: DataFileMeta, shift: int
) -> Iterator[pa.RecordBatch]:
    for batch in files.read(partition, bucket, file, files.paths.schema.field_names, system_columns=True):
        at = batch.schema.get_field_index(SEQUENCE_COLUMN)
        numbers = pc.add(batch.column(at), pa.scalar(shift, pa.int64()))
        yield batch.set_column(at, batch.schema.field(at), numbers)
