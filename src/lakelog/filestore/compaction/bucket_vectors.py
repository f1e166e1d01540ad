"""The deletion vectors of a bucket during a compaction (format sheet 10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from lakelog.filestore.commit.request import IndexChange, SeenVectors
from lakelog.filestore.compaction.upper_levels import Hits
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef, read_vectors, vector_refs, write_vectors
from lakelog.io.storage.file_io import FileIO
from lakelog.merge.base import Indices
from lakelog.paimon.index.deletion_vector import Positions
from lakelog.paimon.metadata.manifest import IndexManifestEntry


class BucketVectors:
    """Deleted rows in the data files of a bucket, before and after a compaction.

    ``entries`` are the bucket's index files with deletion vectors.
    """

    def __init__(
        self, io: FileIO, paths: TablePaths, partition: bytes, bucket: int, entries: Sequence[IndexManifestEntry]
    ) -> None:
        self._io, self._paths, self._partition, self._bucket, self._entries = io, paths, partition, bucket, entries
        self.refs: tuple[DeletionVectorRef, ...] = vector_refs(entries, paths).get((partition, bucket), ())
        self._new: dict[str, list[Indices]] = defaultdict(list)

    def deleted(self, data_files: Iterable[str]) -> dict[str, Positions]:
        """The deleted positions per data file before the compaction, for the files with any."""
        names = set(data_files)
        return read_vectors(self._io, (p for p in self.refs if p.data_file in names))

    def delete(self, hits: Hits) -> None:
        self._new[hits.file.file_name].append(hits.positions)

    def change(self, removed: Iterable[str]) -> IndexChange:
        """Writes the vectors if they changed, without the vectors of the data files ``removed``.

        A bucket of a keyed table has one index file. For other tables only the index files that name such a data file,
        or one with newly deleted rows, are rewritten.
        """
        dropped = set(removed)
        seen = (SeenVectors(self._partition, self._bucket, frozenset(e.file_name for e in self._entries)),)
        touched = dropped | self._new.keys()
        replaced = [e for e in self._entries if self._paths.schema.is_keyed or _names(e) & touched]
        if not self._new and not any(_names(e) & dropped for e in replaced):
            return IndexChange(seen=seen)
        names = {name for entry in replaced for name in _names(entry)}
        after = {name: at for name, at in self.deleted(names - dropped).items() if len(at)}
        for name, parts in self._new.items():
            # each row is found at most once, and never if it is already deleted
            after[name] = np.sort(np.concatenate([*parts, after.get(name, np.empty(0, dtype=np.int64))]))
        entries = (write_vectors(self._io, self._paths, self._partition, self._bucket, after),) if after else ()
        return IndexChange(entries, frozenset(e.file_name for e in replaced), seen)


def _names(entry: IndexManifestEntry) -> set[str]:
    """The data files whose vectors an index file contains."""
    return {r.data_file for r in entry.deletion_vectors or ()}
