"""Reads the index manifest of a snapshot, and makes the next one from a commit's change (format sheet 4.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakelog.filestore.commit_request import IndexChange, Overwrite
from lakelog.filestore.manifests import Manifests
from lakelog.spec.manifest import IndexManifestEntry, index_entry_from_record
from lakelog.spec.snapshot import Snapshot

HASH: Final = "HASH"
DELETION_VECTORS: Final = "DELETION_VECTORS"


@dataclass(frozen=True)
class IndexManifests:
    """The index files of the snapshots of one table."""

    manifests: Manifests

    def entries(self, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
        """All index files of a snapshot: an index manifest is complete, unlike one of data files."""
        if snapshot is None or snapshot.index_manifest is None:
            return []
        return list(self.manifests.read_records(snapshot.index_manifest, index_entry_from_record))


def next_index(
    before: Iterable[IndexManifestEntry], change: IndexChange, overwrite: Overwrite | None, is_keyed: bool
) -> list[IndexManifestEntry]:
    """The index files after a commit. Pure.

    Those of overwritten partitions go, those that the change names, and those whose bucket has a new one of a kind
    that a bucket has once.
    """
    once = {_place(e) for e in change.added if e.index_type == HASH or is_keyed}
    kept = [
        e
        for e in before
        if not (overwrite is not None and overwrite.covers(e.partition))
        and e.file_name not in change.deleted
        and _place(e) not in once
    ]
    return [*kept, *change.added]


def _place(entry: IndexManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.index_type
