"""The content of one commit: files, replaced partitions, index files, statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.manifest import IndexManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot


@dataclass(frozen=True)
class Overwrite:
    """The partitions (serialised rows; None: all) whose files, live at commit time, a commit replaces.

    ``kept`` are the names of their data and index files that stay; the commit conflicts unless all are live. It then
    restores a state, so its new files keep their sequence numbers, which may be below those of files that stay.
    """

    partitions: frozenset[bytes] | None = None
    kept: frozenset[str] | None = None

    def covers(self, partition: bytes) -> bool:
        """Returns whether the overwrite concerns this partition."""
        return self.partitions is None or partition in self.partitions

    def replaces(self, partition: bytes, name: str) -> bool:
        """Returns whether the overwrite removes the file with this name in a partition."""
        return self.covers(partition) and (self.kept is None or name not in self.kept)


@dataclass(frozen=True)
class SeenVectors:
    """The deletion vector files of a bucket that a compaction has read; newer ones are a conflict."""

    partition: bytes
    bucket: int
    file_names: frozenset[str]


@dataclass(frozen=True)
class IndexChange:
    """New index files, and names of the files that they replace.

    A new ``HASH`` file, and a new deletion vector file of a keyed table, replaces its bucket's existing file without a
    name here (format sheet 4.4). A commit with ``seen`` conflicts if a bucket has other deletion vectors.
    """

    added: tuple[IndexManifestEntry, ...] = ()
    deleted: frozenset[str] = frozenset()
    seen: tuple[SeenVectors, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.deleted)


@dataclass(frozen=True)
class CommitRequest:
    """The content of one commit.

    ``user`` and ``identifier`` make it idempotent: a repeated request returns its snapshot. Identifiers of one user
    increase. ``properties`` are stored in the snapshot. In each round ``prepare`` derives more properties from the
    newest snapshot, and may raise to abort the commit. ``first_try`` skips the search for an earlier attempt (a new
    user). Otherwise the search covers the snapshots after ``since`` (None: all that exist), and the outcome stays
    unknown if some of them have expired.
    ``allow_empty`` permits a snapshot without files. ``overwrite`` (kind OVERWRITE; COMPACT if no row changes) deletes
    the live files of partitions at commit time. ``statistics`` names a statistics file (kind ANALYZE).
    ``rewrite_manifests`` reduces the manifests to the minimum number (kind COMPACT). ``after`` is the newest snapshot
    that the caller has read, which saves a read if it still is.
    """

    user: str
    identifier: int
    kind: str
    files: tuple[BucketFiles, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    allow_empty: bool = False
    prepare: Callable[[Snapshot | None], Mapping[str, str]] | None = None
    first_try: bool = False
    since: int | None = None
    overwrite: Overwrite | None = None
    index: IndexChange = IndexChange()
    statistics: str | None = None
    rewrite_manifests: bool = False
    after: Snapshot | None = None
