"""Crash-safe removal of snapshots, tags and changelogs, and then of their unshared files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakelog.errors import NotFound
from lakelog.filestore.gc.reachability import GcRoot, ReachableFiles
from lakelog.io.names import new_uuid
from lakelog.io.storage.storage_clock import StorageClock
from lakelog.options.option import Options
from lakelog.options.retention import FILE_THREADS
from lakelog.paimon.types.checked_values import read_as

_THREADS: Final = 8
_FORGOTTEN_MS: Final = 24 * 3_600_000
"""Age after which a note is dropped although its roots exist, because its process failed before their removal."""


@dataclass(frozen=True)
class Removal:
    """Removes roots of one table.

    1 write a note of the candidate files · 2 delete the roots, in order · 3 check again which files are referenced ·
    4 delete the unreferenced ones · 5 delete the note. An existing root is always complete. After a crash the next
    removal finishes steps 3 to 5 from the note. The creator of a new root (a tag, a branch) writes it first and then
    checks that the snapshot still exists. So either step 3 sees the new root, or its creator sees that the snapshot was
    deleted.
    """

    references: ReachableFiles

    def remove(
        self,
        roots: Sequence[GcRoot],
        candidates: Collection[str],
        keepers: Callable[[], Sequence[GcRoot]],
        before: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> int:
        """Removes ``roots`` in order, and the ``candidates`` that none of ``keepers()`` references.

        ``before`` runs before the first root is deleted, ``after`` when all are deleted (hints). Returns the number of
        deleted files without the roots. Raises TableReplaced.
        """
        note = f"{self.references.paths.removals}/{new_uuid()}"
        # 1
        if candidates:
            lists = {root.path: root.snapshot.base_manifest_list for root in roots}
            self.references.io.write(note, orjson.dumps({"roots": lists, "files": sorted(candidates)}))
        # 2
        with self.references.own_directory() as io:
            if before is not None:
                before()
            for root in roots:
                io.delete(root.path)
        if after is not None:
            after()
        if not candidates:
            return 0
        # 3
        unused = set(candidates) - self.references.used_among(set(candidates), keepers)
        # 4
        self.delete_all(unused)
        # 5
        self.references.io.delete(note)
        return len(unused)

    def finish(self) -> int:
        """Finishes interrupted removals; returns the number of deleted files. Called before each expiry."""
        deleted, clock = 0, StorageClock(self.references.io, self.references.paths.root)
        for status in self.references.io.list(self.references.paths.removals):
            path = f"{self.references.paths.removals}/{status.name}"
            try:
                roots, candidates = read_as(self.references.io, path, _note)
            except NotFound:
                continue
            unused = candidates - self.references.used_among(candidates, self.all_roots)
            self.delete_all(unused)
            deleted += len(unused)
            # a running removal is about to delete the remaining roots
            is_over = not any(self._exists(*root) for root in roots.items())
            if is_over or clock.is_older(status.mtime_ms, _FORGOTTEN_MS):
                self.references.io.delete(path)
        return deleted

    def _exists(self, path: str, base_manifest_list: str) -> bool:
        """Returns whether a root exists and was not replaced."""
        try:
            return base_manifest_list.encode() in self.references.io.read(path)
        except NotFound:
            return False

    def all_roots(self) -> list[GcRoot]:
        """All roots on all branches."""
        return [*self.references.branch_roots(), *self.references.other_branches_roots()]

    def delete_all(self, files: Iterable[str]) -> None:
        """Deletes files in parallel (``file-operation.thread-num``). Raises the first error."""
        ordered = sorted(files)
        options = Options(self.references.paths.schema.options)
        threads = max(1, min(options.get_typed(FILE_THREADS) or _THREADS, len(ordered)))
        if threads == 1:
            for path in ordered:
                self.references.io.delete(path)
            return
        with ThreadPoolExecutor(threads, "lakelog-delete") as pool:
            for _ in pool.map(self.references.io.delete, ordered):
                pass


def _note(data: bytes) -> tuple[dict[str, str], set[str]]:
    """The roots of a removal, and its candidate files."""
    values: dict[str, Any] = orjson.loads(data)
    return {str(path): str(first) for path, first in values["roots"].items()}, {str(name) for name in values["files"]}
