"""An older state, or that of a branch, as the content of a new snapshot (RFC 23)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from lakelog.errors import CommitConflict, LakelogError
from lakelog.filestore.commit.request import CommitRequest, IndexChange, Overwrite
from lakelog.filestore.metadata.manifests import IndexManifests, Manifests
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.filestore.write.data_file_writer import FileNames
from lakelog.io.storage.file_io import FileIO
from lakelog.options.option import Options
from lakelog.options.table import DATA_FILE_PREFIX
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.metadata.manifest import DELETE, IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot

_THREADS: Final = 8
_CHUNK_BYTES: Final = 8 << 20
_ROUNDS: Final = 20
"""Number of times that files of the state may be replaced, because others compact them, before the commit."""


@dataclass
class RestoredState:
    """The files of one state, for a commit that makes them the only live ones; not for several threads.

    Files that are live stay. The others get copies with new names, because a file is added once and deleted once in the
    life of a table: the expiry of any engine deletes it with the snapshot before the one that deleted it, and an engine
    that merges manifests refuses a file that is added twice. ``unused`` are the names of files that the table has never
    had, because a branch has made them; these are added themselves.
    """

    io: FileIO
    paths: TablePaths
    state: Snapshot
    unused: frozenset[str] = frozenset()
    names: FileNames = field(default_factory=FileNames)
    _copies: dict[str, DataFileMeta] = field(default_factory=dict)
    _index_copies: dict[str, IndexManifestEntry] = field(default_factory=dict)
    _written: list[str] = field(default_factory=list)

    def commit(
        self, user: str, latest: Callable[[], Snapshot | None], commit: Callable[[CommitRequest], Snapshot]
    ) -> Snapshot:
        """Makes the state the newest one.

        1 copy the files that are no longer live · 2 commit the state in place of all live files; if one that stays was
        replaced meanwhile, again from 1. A crash leaves at most unreferenced files. Raises NotFound if the state
        expires meanwhile, CommitConflict, and the errors of ``commit``.
        """
        for left in reversed(range(_ROUNDS)):
            # 1
            try:
                request = self._request(user, latest())
            except LakelogError:
                self._delete_copies()
                raise
            # 2
            try:
                return commit(request)
            except CommitConflict:  # another error may come after the commit
                if not left:
                    self._delete_copies()
                    raise
        raise AssertionError

    def _request(self, user: str, latest: Snapshot | None) -> CommitRequest:
        manifests = Manifests(self.io, self.paths)
        live = {entry.identifier for entry in manifests.live(latest)}
        target = manifests.live(self.state)
        kept = [entry for entry in target if entry.identifier in live]
        added = [entry for entry in target if entry.identifier not in live]
        self._copy([e for e in added if e.file.file_name not in self.unused])
        files = [replace(e, file=self._copies.get(e.file.file_name, e.file)) for e in added]
        renamed = {e.file.file_name: f.file.file_name for e, f in zip(added, files, strict=True)}
        here = {entry.file_name for entry in IndexManifests(manifests).entries(latest)}
        index: list[IndexManifestEntry] = []
        kept_index: set[str] = set()
        for entry in IndexManifests(manifests).entries(self.state):
            covered = {r.data_file for r in entry.deletion_vectors or ()}
            if entry.file_name in here and covered.isdisjoint(renamed):
                kept_index.add(entry.file_name)
            else:
                index.append(self._copied_index(entry, renamed))
        names = frozenset(entry.file.file_name for entry in kept) | kept_index
        return CommitRequest(
            user,
            0,
            "OVERWRITE",
            tuple(_by_bucket(files)),
            overwrite=Overwrite(None, names),
            index=IndexChange(tuple(index)),
            allow_empty=True,
            first_try=True,
        )

    def _delete_copies(self) -> None:
        with contextlib.suppress(LakelogError):  # orphan cleaning finds them
            for path in self._written:
                self.io.delete(path)

    def _copy(self, entries: Iterable[ManifestEntry]) -> None:
        pairs: list[tuple[str, str]] = []
        for entry in entries:
            file = entry.file
            if file.file_name in self._copies:
                continue
            directory = self.paths.bucket_dir(entry.partition, entry.bucket)
            name = self._new_name(file.file_name)
            extra = tuple(name + e.removeprefix(file.file_name) for e in file.extra_files)
            copy = replace(file, file_name=name, extra_files=extra, external_path=None)
            old = self.paths.files_of(directory, file)
            pairs += zip(old, self.paths.files_of(directory, copy), strict=True)
            self._copies[file.file_name] = copy
        self._written += [new for _, new in pairs]
        if len(pairs) < 2:
            for pair in pairs:
                self._copy_bytes(pair)
            return
        with ThreadPoolExecutor(_THREADS, "lakelog-copy") as threads:
            for _ in threads.map(self._copy_bytes, pairs):
                pass

    def _new_name(self, old: str) -> str:
        number, dot, ending = old.rpartition("-")[2].partition(".")
        return self.names.next(Options(self.paths.schema.options).need(DATA_FILE_PREFIX), f"{dot}{ending}")

    def _copied_index(self, entry: IndexManifestEntry, renamed: Mapping[str, str]) -> IndexManifestEntry:
        """The index file under a new name, with deletion vectors of the new data files."""
        if entry.file_name not in self._index_copies:
            copy = replace(entry, file_name=self.names.next("index-", ""), external_path=None)
            place = entry.partition, entry.bucket
            old = self.paths.bucket_index_file(*place, entry.file_name, entry.external_path)
            new = self.paths.bucket_index_file(*place, copy.file_name)
            self._written.append(new)
            self._copy_bytes((old, new))
            self._index_copies[entry.file_name] = copy
        ranges = entry.deletion_vectors
        if ranges is not None:
            ranges = tuple(replace(r, data_file=renamed.get(r.data_file, r.data_file)) for r in ranges)
        return replace(self._index_copies[entry.file_name], deletion_vectors=ranges)

    def _copy_bytes(self, pair: tuple[str, str]) -> None:
        old, new = pair
        with self.io.open_input(old) as source, self.io.open_output(new) as target:
            while chunk := source.read(_CHUNK_BYTES):
                target.write(chunk)


def files_added_only(
    branch: Manifests, chain: Collection[Snapshot], main: Manifests, snapshots: Collection[Snapshot]
) -> frozenset[str]:
    """The names of files that snapshots of a branch have added, and that main has never had as far as is known."""
    names = {e.file.file_name for snapshot in chain for e in branch.delta(snapshot) if e.kind != DELETE}
    for snapshot in snapshots:
        names -= {e.file.file_name for e in main.delta(snapshot)}
    newest = max(snapshots, key=lambda s: s.id, default=None)
    for meta in () if newest is None else main.manifests_of(newest):
        names -= {e.file.file_name for e in main.read(meta.file_name)}
    return frozenset(names)


def _by_bucket(entries: Iterable[ManifestEntry]) -> Iterable[BucketFiles]:
    held: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in entries:
        held.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    for (partition, bucket, total), files in held.items():
        yield BucketFiles(partition, bucket, total, new_files=tuple(files))
