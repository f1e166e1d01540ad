"""Removal of orphan files from killed writers, lost commits and killed expiries (sheet 1, 12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidRequest
from lakelog.filestore.gc.reachability import ReachableFiles
from lakelog.filestore.gc.removal import Removal
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.metadata.snapshots import Snapshots
from lakelog.io import clock
from lakelog.io.storage.file_io import FileIO, FileStatus
from lakelog.io.storage.storage_clock import CLOCK_PREFIX, storage_now_ms
from lakelog.options.changelog import CHANGELOG_FILE_PREFIX
from lakelog.options.notebook import NotebookView
from lakelog.options.option import Options
from lakelog.options.table import DATA_FILE_PREFIX

DAY_MS: Final = 24 * 3_600_000
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_METADATA: Final = {
    "manifest": re.compile(rf"(?:manifest|manifest-list|index-manifest)-{_UUID}-\d+"),
    "index": re.compile(rf"index-{_UUID}-\d+"),
    "statistics": re.compile(rf"stat-{_UUID}-\d+"),
    "lakelog": re.compile(rf"{CLOCK_PREFIX}[0-9a-f]+"),
}
_TEMPORARY: Final = re.compile(r"\..+\.tmp")
_SNAPSHOT: Final = re.compile(r"snapshot-(\d+)")
OWN_DIRECTORIES: Final = ("schema", "snapshot", "changelog", "tag", "consumer")
"""The directories of files that each branch has separately."""
_NOT_DATA: Final = frozenset({"manifest", "index", "statistics", *OWN_DIRECTORIES, "branch", "lakelog", "metadata"})


@dataclass(frozen=True, repr=False)
class Orphans(NotebookView):
    """The orphans that a cleaning found, and deleted unless it was a dry run."""

    files: tuple[str, ...]
    bytes: int

    def __repr__(self) -> str:
        return f"Orphans({len(self.files)} files, {self.bytes:,} bytes)"

    def notebook_facts(self) -> Mapping[str, object]:
        return {"files": len(self.files), "bytes": self.bytes}


@dataclass(frozen=True)
class OrphanCleaning:
    """Cleans one table, all its branches at once.

    1 list the files that are old enough · 2 get the files that are decided but in no snapshot yet (``staged``) · 3 read
    the files that snapshots, tags, changelogs and unfinished removals reference · 4 delete the rest. In this order a
    concurrently committed file is in 2 or 3. The files of a running writer are in neither. Their age, by the storage's
    clock, protects them. A file whose name does not match the format stays.
    """

    references: ReachableFiles
    staged: Callable[[], Iterable[str]] = tuple

    def clean(self, older_than_ms: int = DAY_MS, dry_run: bool = False) -> Orphans:
        """Removes unreferenced files that are older than ``older_than_ms``, and empty directories.

        Raises NotFound if a manifest is missing (nothing is deleted then), InvalidRequest for a negative age.
        """
        if older_than_ms < 0:
            raise InvalidRequest(f"the age of orphan files cannot be {older_than_ms} ms: give 0 or more")
        removal = Removal(self.references)
        if not dry_run:
            removal.finish()
        now_ms = clock.now_ms() if dry_run else storage_now_ms(self._io, self._root)
        limit = now_ms - older_than_ms
        # 1
        old = {path: size for path, size, changed in self._files() if changed <= limit}
        if not old:
            self._remove_empty(limit, dry_run)
            return Orphans((), 0)
        # 2
        named = set(self.staged())
        # 3
        named |= self.references.used(removal.all_roots)
        orphans = {path: size for path, size in old.items() if path not in named}
        # 4
        if not dry_run:
            removal.delete_all(orphans)
            self._remove_empty(limit, dry_run)
        return Orphans(tuple(sorted(orphans)), sum(orphans.values()))

    @property
    def _io(self) -> FileIO:
        return self.references.io

    @property
    def _root(self) -> str:
        return self.references.paths.root

    def _files(self) -> Iterator[tuple[str, int, int]]:
        """(path, size, modification time) of all possible orphans, by their names."""
        for name, pattern in _METADATA.items():
            for path, status in self._inside(f"{self._root}/{name}"):
                if pattern.fullmatch(status.name) or _TEMPORARY.fullmatch(status.name):
                    yield path, status.size, status.mtime_ms
        for branch in (MAIN_BRANCH, *self.references.branches()):
            yield from self._own_files(branch)
        for directory in bucket_directories(self._io, self.references.paths):
            for path, status in self._inside(directory):
                if self._data_name.fullmatch(status.name) or _TEMPORARY.fullmatch(status.name):
                    yield path, status.size, status.mtime_ms

    def _own_files(self, branch: str) -> Iterator[tuple[str, int, int]]:
        """Temporary files of a branch, and snapshots beyond a gap."""
        paths = self.references.of_branch(branch).paths
        files = [(name, *file) for name in OWN_DIRECTORIES for file in self._inside(f"{paths.branch_root}/{name}")]
        # requested after the listing, so that it includes later commits
        chain = set(Snapshots(self._io, paths).chain_ids())
        for name, path, status in files:
            snapshot = _SNAPSHOT.fullmatch(status.name) if name == "snapshot" else None
            stray = snapshot is not None and chain and int(snapshot[1]) not in chain
            if stray or _TEMPORARY.fullmatch(status.name):
                yield path, status.size, status.mtime_ms

    @property
    def _data_name(self) -> re.Pattern[str]:
        options = Options(self.references.paths.schema.options)
        given = {options.need(option) for option in (DATA_FILE_PREFIX, CHANGELOG_FILE_PREFIX)}
        prefixes = "|".join(re.escape(p) for p in sorted(given | {"data-", "changelog-"}))
        return re.compile(rf"(?:{prefixes}).*{_UUID}-\d+\..+")

    def _remove_empty(self, limit: int, dry_run: bool) -> None:
        if dry_run:
            return
        for level in reversed(list(partition_levels(self._io, self.references.paths))):
            for path, status in level:
                if status.mtime_ms <= limit and not self._io.list(path):
                    self._io.delete_empty_dir(path)

    def _inside(self, directory: str) -> Iterator[tuple[str, FileStatus]]:
        for status in self._io.list(directory):
            if not status.is_dir:
                yield f"{directory}/{status.name}", status


def partition_levels(io: FileIO, paths: TablePaths) -> Iterator[list[tuple[str, FileStatus]]]:
    """The directories below a table, one list per level, down to the buckets: (path, status)."""
    schema = paths.schema
    parents = [paths.data_root]
    for depth in range(len(schema.partition_keys) + 1):
        prefix = "bucket-" if depth == len(schema.partition_keys) else f"{schema.partition_keys[depth]}="
        level = [
            (f"{parent}/{status.name}", status)
            for parent in parents
            for status in io.list(parent)
            if status.is_dir and status.name.startswith(prefix) and (depth > 0 or status.name not in _NOT_DATA)
        ]
        yield level
        parents = [path for path, _ in level]


def bucket_directories(io: FileIO, paths: TablePaths) -> Iterator[str]:
    """The directories of the buckets of all partitions."""
    for level in partition_levels(io, paths):
        for directory, status in level:
            if status.name.startswith("bucket-"):
                yield directory
