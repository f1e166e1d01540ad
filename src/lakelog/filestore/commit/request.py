"""What one commit puts into a table: files, replaced partitions, index files, statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.manifest import IndexManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot


@dataclass(frozen=True)
class Overwrite:
    """The partitions (serialised rows; None: all) whose live files a commit replaces, whatever they are by then."""

    partitions: frozenset[bytes] | None = None

    def covers(self, partition: bytes) -> bool:
        """Whether the files of this partition go."""
        return self.partitions is None or partition in self.partitions


@dataclass(frozen=True)
class SeenVectors:
    """The deletion vector files of a bucket that a compaction has read: it must not miss those made since."""

    partition: bytes
    bucket: int
    file_names: frozenset[str]


@dataclass(frozen=True)
class IndexChange:
    """New index files, and names of those that they replace.

    A new ``HASH`` file, and a new deletion vector file of a keyed table, replaces the one of its bucket without being
    named (format sheet 4.4). A commit with ``seen`` is a conflict when a bucket has other deletion vectors by then.
    """

    added: tuple[IndexManifestEntry, ...] = ()
    deleted: frozenset[str] = frozenset()
    seen: tuple[SeenVectors, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.deleted)


@dataclass(frozen=True)
class CommitRequest:
    """What one commit puts into the table.

    ``user`` and ``identifier`` make it happen once: the same request again finds its snapshot. Identifiers of one user
    grow. ``properties`` go into the snapshot; ``prepare`` makes more of them from the newest snapshot, anew in each
    round, and may raise to give the commit up. ``first_try`` says that nobody can have tried this commit before (a
    fresh user), which saves looking for it. ``allow_empty`` makes a snapshot without files. ``overwrite`` (kind
    OVERWRITE) deletes what is live in partitions when the snapshot is made; ``statistics`` names a statistics file
    (kind ANALYZE). ``rewrite_manifests`` leaves as few manifests as there can be (kind COMPACT).
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
    overwrite: Overwrite | None = None
    index: IndexChange = IndexChange()
    statistics: str | None = None
    rewrite_manifests: bool = False
