"""Removes snapshots, tags and changelogs and then the files that only they named, so that a crash leaks nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakelog.errors import NotFound
from lakelog.filestore.gc.reachability import GcRoot, ReachableFiles
from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.options.option import Options
from lakelog.options.retention import FILE_THREADS
from lakelog.paimon.types.checked_values import read_as

_THREADS: Final = 8
_FORGOTTEN_MS: Final = 24 * 3_600_000
"""Age of a note after which it is dropped though roots of it are there: its process never got that far."""


@dataclass(frozen=True)
class Removal:
    """Removes roots of one table.

    1 note the files that may go · 2 delete the roots, in the order given · 3 look again at who names the files ·
    4 delete those that nobody does · 5 delete the note. A root that is there is complete at every moment; after a
    death the next removal finishes steps 3 to 5 from the note. Whoever makes a new root (a tag, a branch) writes it
    first and then looks whether the snapshot is still there: so either step 3 sees the new root, or its maker sees
    that the snapshot is gone.
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
        """Removes ``roots`` in order and those of ``candidates`` that none of ``keepers()`` names.

        ``before`` runs before the first root goes, ``after`` when all are gone (hints). Returns the number of files
        deleted besides the roots.
        """
        note = f"{self.references.paths.removals}/{new_uuid()}"
        # 1
        if candidates:
            lists = {root.path: root.snapshot.base_manifest_list for root in roots}
            self.references.io.write(note, orjson.dumps({"roots": lists, "files": sorted(candidates)}))
        # 2
        if before is not None:
            before()
        for root in roots:
            self.references.io.delete(root.path)
        if after is not None:
            after()
        if not candidates:
            return 0
        # 3
        gone = set(candidates) - self.references.used_among(set(candidates), keepers)
        # 4
        self.delete_all(gone)
        # 5
        self.references.io.delete(note)
        return len(gone)

    def finish(self) -> int:
        """Does what removals that died have left; returns the number of files deleted. Called before each expiry."""
        deleted = 0
        for status in self.references.io.list(self.references.paths.removals):
            path = f"{self.references.paths.removals}/{status.name}"
            try:
                roots, candidates = read_as(self.references.io, path, _note)
            except NotFound:
                continue
            gone = candidates - self.references.used_among(candidates, self.all_roots)
            self.delete_all(gone)
            deleted += len(gone)
            # one that is running is about to delete the roots that are left
            is_over = not any(self._is_there(*root) for root in roots.items())
            if is_over or clock.now_ms() - status.mtime_ms > _FORGOTTEN_MS:
                self.references.io.delete(path)
        return deleted

    def _is_there(self, path: str, base_manifest_list: str) -> bool:
        """Whether a root is there, and not another one that has taken its place."""
        try:
            return base_manifest_list.encode() in self.references.io.read(path)
        except NotFound:
            return False

    def all_roots(self) -> list[GcRoot]:
        """Everything that names files, on all branches."""
        return [*self.references.branch_roots(), *self.references.other_branches_roots()]

    def delete_all(self, files: Iterable[str]) -> None:
        """Deletes files, several at a time (``file-operation.thread-num``). Raises what the first failure raised."""
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
    """The roots of a removal, and the files that may go."""
    found: dict[str, Any] = orjson.loads(data)
    return {str(path): str(first) for path, first in found["roots"].items()}, {str(name) for name in found["files"]}
