"""Reads the index manifest of a snapshot (format sheet 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.filestore.metadata.manifests import Manifests
from lakelog.paimon.metadata.manifest import IndexManifestEntry, index_entry_from_record
from lakelog.paimon.metadata.snapshot import Snapshot

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
