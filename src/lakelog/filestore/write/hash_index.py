"""Index files of tables with dynamic buckets: the hashes of the keys of each bucket (format sheet 11)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lakelog.errors import Corrupt
from lakelog.filestore.metadata.index_manifests import HASH, IndexManifests
from lakelog.filestore.metadata.manifests import Manifests
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.manifest import ADD, IndexManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import Hashes


@dataclass(frozen=True)
class HashIndex:
    """Reads and writes the hash index files of one table."""

    manifests: Manifests

    def entries(
        self, snapshot: Snapshot | None, partitions: Collection[bytes]
    ) -> dict[bytes, list[IndexManifestEntry]]:
        """The index files of some partitions in a snapshot; every one of them has a list, perhaps an empty one."""
        out: dict[bytes, list[IndexManifestEntry]] = {p: [] for p in partitions}
        for entry in IndexManifests(self.manifests).entries(snapshot):
            if entry.index_type == HASH and entry.partition in out:
                out[entry.partition].append(entry)
        return out

    def read(self, entries: Iterable[IndexManifestEntry]) -> dict[int, Hashes]:
        """Bucket → hashes of its keys. Raises NotFound, Corrupt."""
        return {entry.bucket: self._hashes(entry) for entry in entries}

    def write(
        self, partition: bytes, before: Mapping[int, Hashes], added: Mapping[int, Hashes]
    ) -> list[IndexManifestEntry]:
        """A whole new file for each bucket with new hashes; nobody names it yet."""
        uuid = new_uuid()
        made = []
        for number, (bucket, new) in enumerate(sorted(added.items())):
            known = before.get(bucket, np.empty(0, dtype=np.int32))
            hashes = np.concatenate([known, new])
            data = hashes.astype(">i4").tobytes()
            name = f"index-{uuid}-{number}"
            self.manifests.io.write(self.manifests.paths.bucket_index_file(partition, bucket, name), data)
            made.append(IndexManifestEntry(ADD, partition, bucket, HASH, name, len(data), len(hashes)))
        return made

    def delete(self, entries: Iterable[IndexManifestEntry]) -> None:
        """Deletes files that nobody will ever name."""
        for entry in entries:
            self.manifests.io.delete(self._path(entry))

    def _hashes(self, entry: IndexManifestEntry) -> Hashes:
        path = self._path(entry)
        data = self.manifests.io.read(path)
        if len(data) % 4 or len(data) != entry.row_count * 4:
            raise Corrupt(f"index file '{path}' has {len(data)} bytes for {entry.row_count} keys")
        return np.frombuffer(data, dtype=">i4").astype(np.int32)

    def _path(self, entry: IndexManifestEntry) -> str:
        paths = self.manifests.paths
        return paths.bucket_index_file(entry.partition, entry.bucket, entry.file_name, entry.external_path)
