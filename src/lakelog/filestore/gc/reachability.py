"""Reachability: the files that a table's snapshots, tags and changelogs reference (format sheet 1, 12)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from lakelog.errors import NotFound
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.metadata.manifests import EntryTest, IndexManifests, Manifests
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.metadata.snapshots import Snapshots
from lakelog.filestore.read.changes import producer_of
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.metadata.data_file import APPEND_SOURCE, DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.tag import Tag, tag_from_json
from lakelog.paimon.types.checked_values import parsing

SNAPSHOT: Final = "snapshot"
TAG: Final = "tag"
CHANGELOG: Final = "changelog"

_TAG: Final = re.compile(r"tag-(.+)")
_CHANGELOG: Final = re.compile(r"changelog-(\d+)")
_BRANCH: Final = re.compile(r"branch-(.+)")


@dataclass(frozen=True)
class GcRoot:
    """A root of reachability: a snapshot, a tag or a changelog of a branch.

    If ``follows``, the previous snapshot is a root as well, so only its added data files count. If ``expiring``, the
    root is about to be removed, and missing files of it are already removed.
    """

    path: str
    snapshot: Snapshot
    kind: str = SNAPSHOT
    follows: bool = False
    expiring: bool = False


@dataclass(frozen=True)
class ReachableFiles:
    """The roots of a table and the files that they reference, with paths from ``TablePaths``."""

    io: FileIO
    paths: TablePaths
    identity: Identity | None = None
    _directories: dict[tuple[bytes, int], str] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def snapshots(self) -> Snapshots:
        """The snapshots of this branch."""
        return Snapshots(self.io, self.paths)

    @property
    def manifests(self) -> Manifests:
        """The manifests, which all branches store in one directory."""
        return Manifests(self.io, self.paths)

    def of_branch(self, branch: str) -> ReachableFiles:
        """The same table on another branch."""
        return replace(self, paths=replace(self.paths, branch=branch))

    def own_directory(self) -> contextlib.AbstractContextManager[FileIO]:
        """Context with the storage to delete roots with; see ``Identity.own_directory``. Raises TableReplaced."""
        return contextlib.nullcontext(self.io) if self.identity is None else self.identity.own_directory()

    # roots

    def branches(self) -> dict[str, int]:
        """All branches except main: name → ms since 1970 of its directory's last change."""
        matches = ((_BRANCH.fullmatch(s.name), s.mtime_ms) for s in self.io.list(self.paths.branches) if s.is_dir)
        return dict(sorted((match[1], changed) for match, changed in matches if match))

    def chain(self) -> list[GcRoot]:
        """The snapshots of this branch, oldest first: the run of consecutive ids that ends at the newest."""
        out: list[GcRoot] = []
        for snapshot_id in self.snapshots.chain_ids():
            try:
                snapshot = self.snapshots.read(snapshot_id)
            except NotFound:
                out.clear()  # expiry continues from the oldest
                continue
            out.append(GcRoot(self.paths.snapshot(snapshot_id), snapshot, follows=bool(out)))
        return out

    def tags(self) -> list[Tag]:
        """The tags of this branch, by snapshot and name."""
        out = []
        for status in self.io.list(self.paths.tags):
            match = _TAG.fullmatch(status.name)
            data = self._content(f"{self.paths.tags}/{status.name}") if match else None
            if match and data is not None:
                with parsing(status.path):
                    out.append(tag_from_json(match[1], data))
        return sorted(out, key=lambda tag: (tag.snapshot.id, tag.name))

    def changelogs(self) -> list[GcRoot]:
        """The changelogs of this branch that outlived their snapshots, oldest first."""
        out = []
        for status in self.io.list(self.paths.changelogs):
            path = f"{self.paths.changelogs}/{status.name}"
            data = self._content(path) if _CHANGELOG.fullmatch(status.name) else None
            if data is not None:
                with parsing(path):
                    out.append(GcRoot(path, Snapshot.from_json(data), CHANGELOG))
        return sorted(out, key=lambda root: root.snapshot.id)

    def tag_roots(self) -> list[GcRoot]:
        """The tags of this branch as roots."""
        return [GcRoot(self.paths.tag(tag.name), tag.snapshot, TAG) for tag in self.tags()]

    def branch_roots(self) -> list[GcRoot]:
        """All roots of this branch."""
        return [*self.tag_roots(), *self.changelogs(), *self.chain()]

    def other_branches_roots(self) -> list[GcRoot]:
        """All roots of all other branches."""
        others = [name for name in (MAIN_BRANCH, *self.branches()) if name != self.paths.branch]
        return [root for name in others for root in self.of_branch(name).branch_roots()]

    # files

    def used(self, roots: Callable[[], Sequence[GcRoot]]) -> set[str]:
        """All files that the roots reference; restarts if a root is removed concurrently.

        Raises NotFound for a missing manifest of an existing root.
        """
        return self._read(roots, lambda root: self.metadata_of(root) | self.data_of(root))

    def used_among(self, candidates: set[str], roots: Callable[[], Sequence[GcRoot]]) -> set[str]:
        """The candidates that a root references, like ``used``, but with as few reads as possible."""
        names = {path.rpartition("/")[2] for path in candidates if not path.startswith(f"{self.paths.root}/manifest/")}
        if not candidates:
            return set()
        return candidates & self._read(
            roots, lambda root: self.metadata_of(root) | (self.data_of(root, names) if names else set())
        )

    def metadata_of(self, root: GcRoot) -> set[str]:
        """Manifest lists, manifests, index manifest, index files and statistics file that a root references."""
        snapshot = root.snapshot
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        if root.kind == CHANGELOG:
            lists = [snapshot.delta_manifest_list] if self._keeps_deltas else []
        names = {name for listed in lists if listed for name in (listed, *self._manifests_in(listed, root.expiring))}
        if snapshot.changelog_manifest_list is not None and root.kind != TAG:
            listed = snapshot.changelog_manifest_list
            names |= {listed, *self._manifests_in(listed, True)}
        out = {self.paths.manifest(name) for name in names}
        if root.kind == CHANGELOG:
            return out
        if snapshot.index_manifest is not None:
            out.add(self.paths.manifest(snapshot.index_manifest))
            out |= self._index_files(root)
        if snapshot.statistics is not None:
            out.add(self.paths.statistics_file(snapshot.statistics))
        return out

    def data_of(self, root: GcRoot, names: set[str] | None = None) -> set[str]:
        """The data and changelog files that a root needs, with their extra files; ``names`` limits it to these."""
        snapshot, manifests = root.snapshot, self.manifests
        test: EntryTest | None = None
        if names is not None:
            test = lambda e: e.file.file_name in names or not names.isdisjoint(e.file.extra_files)  # noqa: E731
        if root.kind == CHANGELOG:
            entries = self.changelog(snapshot)
            if self._keeps_deltas:
                entries += [e for e in manifests.delta(snapshot) if e.kind == ADD and is_from_writer(e.file)]
        else:
            entries = [] if root.follows else manifests.live(snapshot, wanted=test)
            entries += [e for e in manifests.delta(snapshot) if e.kind == ADD] if root.follows else []
            entries += self.changelog(snapshot) if root.kind == SNAPSHOT else []
        return {path for e in entries if test is None or test(e) for path in self.entry_files(e)}

    def files_to_delete(self, root: GcRoot) -> set[str]:
        """The files of a root that is about to be removed; missing files are already removed."""
        expiring = replace(root, expiring=True)
        out = self.metadata_of(expiring)
        with contextlib.suppress(NotFound):
            out |= self.data_of(expiring)
        return out

    def changelog(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The changelog files of a snapshot; a branch may begin with one whose changelog expired on main."""
        try:
            return self.manifests.changelog(snapshot)
        except NotFound:
            return []

    def entry_files(self, entry: ManifestEntry) -> list[str]:
        """The data file of an entry and its extra files."""
        return [*self.paths.files_of(self._directory(entry), entry.file)]

    def _read(self, roots: Callable[[], Sequence[GcRoot]], read: Callable[[GcRoot], set[str]]) -> set[str]:
        while True:
            roots_read = roots()
            try:
                return {path for root in roots_read for path in read(root)}
            except NotFound:
                if all(self.io.exists(root.path) for root in roots_read):
                    raise

    @property
    def _keeps_deltas(self) -> bool:
        """True if a changelog without its snapshot consists of the snapshot's added files."""
        return producer_of(self.paths.schema) == "none"

    def _manifests_in(self, manifest_list: str, may_be_missing: bool) -> list[str]:
        try:
            return [meta.file_name for meta in self.manifests.read_list(manifest_list)]
        except NotFound:
            if may_be_missing:
                return []
            raise

    def _index_files(self, root: GcRoot) -> set[str]:
        try:
            entries = IndexManifests(self.manifests).entries(root.snapshot)
        except NotFound:
            if root.expiring:
                return set()
            raise
        paths = self.paths
        return {paths.bucket_index_file(e.partition, e.bucket, e.file_name, e.external_path) for e in entries}

    def _directory(self, entry: ManifestEntry) -> str:
        bucket_key = (entry.partition, entry.bucket)
        directory = self._directories.get(bucket_key)
        if directory is None:
            directory = self._directories[bucket_key] = self.paths.bucket_dir(*bucket_key)
        return directory

    def _content(self, path: str) -> bytes | None:
        try:
            return self.io.read(path)
        except NotFound:
            return None


def is_from_writer(file: DataFileMeta) -> bool:
    """Returns whether a data file contains rows as written; True if its metadata does not say."""
    return file.file_source in (None, APPEND_SOURCE)
