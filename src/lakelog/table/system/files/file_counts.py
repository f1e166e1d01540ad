"""Counts the files of partitions and buckets from the manifests, without reading a file."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.read.plan import BucketKey
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.manifest import ADD
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import POSTPONE_BUCKET


@dataclass
class FileCounts:
    """Rows, bytes and number of live files; ``newest_ms`` is the wall clock of the newest one, live or replaced."""

    rows: int = 0
    size: int = 0
    files: int = 0
    newest_ms: int | None = None


def count_files(store: FileStore, snapshot: Snapshot | None, by_bucket: bool) -> dict[BucketKey, FileCounts]:
    """The counts of each (partition, bucket) with live files.

    Unless ``by_bucket``, all buckets count as 0, and files without an assigned bucket (postponed) do not count.
    """
    out: dict[BucketKey, FileCounts] = {}
    for meta in () if snapshot is None else store.manifests.manifests_of(snapshot):
        for entry in store.manifests.read(meta.file_name):
            if entry.bucket == POSTPONE_BUCKET and not by_bucket:
                continue
            counts = out.setdefault((entry.partition, entry.bucket if by_bucket else 0), FileCounts())
            sign = 1 if entry.kind == ADD else -1
            counts.rows += sign * entry.file.row_count
            counts.size += sign * entry.file.file_size
            counts.files += sign
            times = [t for t in (counts.newest_ms, entry.file.creation_time_ms) if t is not None]
            counts.newest_ms = max(times, default=None)
    return {key: counts for key, counts in out.items() if counts.files > 0}
