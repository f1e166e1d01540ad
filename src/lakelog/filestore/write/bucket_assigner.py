"""Assignment of keys to dynamic buckets by their hash (format sheet 11). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from lakelog.errors import Corrupt, InvalidRequest
from lakelog.filestore.metadata.manifests import HASH, IndexManifests, Manifests
from lakelog.io.names import new_uuid
from lakelog.options.option import Options
from lakelog.options.table import DYNAMIC_INITIAL_BUCKETS, DYNAMIC_MAX_BUCKETS, DYNAMIC_TARGET_ROWS
from lakelog.paimon.metadata.manifest import ADD, IndexManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.bucket import Hashes

_MOST_BUCKETS: Final = 1 << 15
"""Maximum dynamic buckets; other engines store their numbers in 16 bits."""
Buckets = npt.NDArray[np.int32]


@dataclass
class BucketAssigner:
    """The buckets of the keys of one partition; an assigned hash keeps its bucket permanently.

    A new hash is assigned evenly to a bucket with fewer keys than ``target``, else to a new bucket. With ``most``
    buckets (-1: no limit) all of them grow. An empty partition starts with ``initial`` buckets.
    """

    target: int
    initial: int = 1
    most: int = -1
    counts: dict[int, int] = field(default_factory=dict)
    _hashes: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    _buckets: Buckets = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    _added: dict[int, list[Hashes]] = field(default_factory=dict)

    @staticmethod
    def of(known: Mapping[int, Hashes], options: Options) -> BucketAssigner:
        """An assigner with the known hashes of each bucket and the table's options."""
        assigner = BucketAssigner(
            max(1, options.need(DYNAMIC_TARGET_ROWS)),
            options.get_typed(DYNAMIC_INITIAL_BUCKETS) or 1,
            options.need(DYNAMIC_MAX_BUCKETS),
            {bucket: len(hashes) for bucket, hashes in known.items()},
        )
        for bucket, hashes in known.items():
            assigner._learn(hashes, np.full(len(hashes), bucket, dtype=np.int32))
        return assigner

    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash; assigns new hashes. Raises InvalidRequest for too many buckets."""
        distinct, inverse = np.unique(hashes, return_inverse=True)
        new = distinct[self._find(distinct) < 0]
        if len(new):
            self._assign_new(new)
        return self._find(distinct)[inverse]

    @property
    def added(self) -> dict[int, Hashes]:
        """Bucket → its newly assigned hashes."""
        return {bucket: np.concatenate(parts) for bucket, parts in self._added.items()}

    def _find(self, hashes: Hashes) -> Buckets:
        """Buckets of hashes; -1 for new ones."""
        if not len(self._hashes):
            return np.full(len(hashes), -1, dtype=np.int32)
        at = np.searchsorted(self._hashes, hashes).clip(max=len(self._hashes) - 1)
        buckets: Buckets = np.where(self._hashes[at] == hashes, self._buckets[at], -1).astype(np.int32)
        return buckets

    def _learn(self, hashes: Hashes, buckets: Buckets) -> None:
        joined = np.concatenate([self._hashes, hashes])
        order = np.argsort(joined, kind="stable")
        self._hashes = joined[order]
        self._buckets = np.concatenate([self._buckets, buckets])[order]

    def _assign_new(self, new: Hashes) -> None:
        assigned = np.empty(len(new), dtype=np.int32)
        done = 0
        while done < len(new):
            room = self._room(len(new) - done)
            share = -(-(len(new) - done) // len(room))
            for bucket, free in room.items():
                stop = min(len(new), done + min(share, free))
                assigned[done:stop] = bucket
                self.counts[bucket] = self.counts.get(bucket, 0) + stop - done
                if stop > done:
                    self._added.setdefault(bucket, []).append(new[done:stop])
                done = stop
        self._learn(new, assigned)

    def _room(self, wanted: int) -> dict[int, int]:
        """Bucket → remaining capacity in keys; never empty."""
        for bucket in range(self.initial if not self.counts else 0):
            if self.most < 0 or bucket < self.most:
                self.counts[bucket] = 0
        room = {b: self.target - n for b, n in sorted(self.counts.items()) if n < self.target}
        if room:
            return room
        fresh = next(i for i in range(_MOST_BUCKETS + 1) if i not in self.counts)
        if 0 <= self.most <= fresh:
            return dict.fromkeys(sorted(self.counts), wanted)
        if fresh >= _MOST_BUCKETS:
            raise InvalidRequest(
                f"a partition would have more than {_MOST_BUCKETS} buckets: raise '{DYNAMIC_TARGET_ROWS.key}' = "
                f"'{self.target}'"
            )
        return {fresh: self.target}


@dataclass(frozen=True)
class HashIndex:
    """Reads and writes the hash index files of one table."""

    manifests: Manifests

    def entries(
        self, snapshot: Snapshot | None, partitions: Collection[bytes]
    ) -> dict[bytes, list[IndexManifestEntry]]:
        """The index files of some partitions in a snapshot; each partition has a list, possibly empty."""
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
        """Writes a complete new file for each bucket with new hashes, not referenced yet."""
        uuid = new_uuid()
        entries = []
        for number, (bucket, new) in enumerate(sorted(added.items())):
            known = before.get(bucket, np.empty(0, dtype=np.int32))
            hashes = np.concatenate([known, new])
            data = hashes.astype(">i4").tobytes()
            name = f"index-{uuid}-{number}"
            self.manifests.io.write(self.manifests.paths.bucket_index_file(partition, bucket, name), data)
            entries.append(IndexManifestEntry(ADD, partition, bucket, HASH, name, len(data), len(hashes)))
        return entries

    def delete(self, entries: Iterable[IndexManifestEntry]) -> None:
        """Deletes files that no snapshot will reference."""
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
