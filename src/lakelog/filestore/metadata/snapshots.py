"""Reads the snapshots of a table: newest, oldest, by id, by committer (format sheet 1, 2).

Finds the snapshot of a point in time by bisection over snapshot ids (format sheet 13).

Pure: ``get`` returns the snapshot of an id; of a history of n snapshots about log2 n are read.

A snapshot that a process of an earlier table of this directory has created is foreign (RFC 10). It is read as an empty
commit after the snapshot before it. Nobody deletes it, because most storage cannot delete on a condition.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from lakelog.errors import Corrupt, LakelogError, NotFound
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO
from lakelog.options.table import TABLE_ID, is_of_another_table
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import LastRead, parsing, read_as

EARLIEST: Final = "EARLIEST"
LATEST: Final = "LATEST"
_NAME: Final = re.compile(r".*/snapshot-(\d+)")
_CHANGELOG_NAME: Final = re.compile(r"changelog-(\d+)")


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of one table."""

    io: FileIO
    paths: TablePaths
    _read: LastRead[Snapshot] = field(
        default_factory=partial(LastRead, Snapshot.from_json, 4), compare=False, repr=False
    )

    def latest_id(self) -> int | None:
        """The newest id; None for a table without snapshots.

        The hint is trusted only if no snapshot follows it; otherwise the directory is listed. Raises Corrupt if the
        hint names a later one than all that exist: a hint is written after its snapshot, which never expires while it
        is the newest.
        """
        hint = self._hint(LATEST)
        if hint is not None and self.exists(hint) and not self.exists(hint + 1):
            return hint
        return self._listed(hint)

    def _listed(self, hint: int | None) -> int | None:
        """The newest id by listing."""
        ids = self.ids()
        if hint is not None and hint > max(ids, default=0):
            has = f"the newest file is of {max(ids)}" if ids else "the table has no snapshot"
            raise Corrupt(
                f"the newest snapshot of table {self.paths.table} is missing: '{self.paths.snapshot_hint(LATEST)}' "
                f"names snapshot {hint}, and {has}. Its file was deleted, or the table was copied during a write: "
                "restore the file, or a whole copy. To continue without its rows, delete the hint"
            )
        return self._newest(ids)

    def _newest(self, ids: Sequence[int]) -> int | None:
        """The newest of all existing ids, without foreign ones above a gap."""
        left = sorted(ids)
        while left:
            run = itertools.takewhile(self._is_deleted_or_foreign, reversed(left))
            at = next((i for i in run if i == 1 or i - 1 not in left), None)
            if at in (None, 1):
                return left[-1]
            left = [i for i in left if i < at]
        return None

    def earliest_id(self) -> int | None:
        """The oldest existing id; None for a table without snapshots."""
        hint = self._hint(EARLIEST)
        if hint is not None and self.exists(hint):
            return hint
        return min(self.chain_ids(), default=None)

    def chain_ids(self) -> list[int]:
        """The ids of the table's history by listing, oldest first: the gapless run that ends at the newest.

        A snapshot below or above a gap is the stray of a process that died before it could delete it (RFC 6).
        """
        ids = sorted(self.ids())
        end = self._end(ids)
        ids = [i for i in ids if i <= end]
        return [i for at, i in enumerate(ids) if end - i == len(ids) - 1 - at]

    def _end(self, ids: Sequence[int]) -> int:
        """The newest id of the history among all existing ids."""
        newest = self._newest(ids) or 0
        hint = self._hint(LATEST)
        if hint is None or hint >= newest or hint not in ids or hint + 1 in ids:
            return newest
        # snapshots above the gap are strays, unless expiry has already removed the hinted one
        earliest = self._hint(EARLIEST)
        return hint if earliest is None or earliest <= hint else newest

    def ids(self) -> list[int]:
        """All ids, by listing, in no order."""
        return [*self.stored_ms()]

    def stored_ms(self) -> dict[int, int]:
        """All ids, by listing, and the storage's time of their files (milliseconds)."""
        matches = ((_NAME.fullmatch(status.path), status.mtime_ms) for status in self.io.list(self.paths.snapshots))
        return {int(match[1]): mtime_ms for match, mtime_ms in matches if match}

    def exists(self, snapshot_id: int) -> bool:
        """Returns whether this snapshot exists."""
        return self.io.exists(self.paths.snapshot(snapshot_id))

    def get(self, snapshot_id: int) -> Snapshot:
        """One snapshot. Raises NotFound, which names the existing range."""
        try:
            return self.read(snapshot_id)
        except NotFound:
            there = self.ids()
            has = f"it has snapshots {min(there)} to {max(there)}" if there else "it has no snapshots"
            raise NotFound(f"table {self.paths.table} has no snapshot {snapshot_id}; {has}") from None

    def read(self, snapshot_id: int) -> Snapshot:
        """One snapshot. Raises NotFound, also for a foreign one whose predecessor no longer exists."""
        return self._own(snapshot_id, self._read.read(self.io, self.paths.snapshot(snapshot_id)))

    def content(self, snapshot_id: int) -> bytes:
        """The bytes of one snapshot, for a tag, a changelog or a branch. Raises NotFound as ``read``."""
        path = self.paths.snapshot(snapshot_id)
        data = self.io.read(path)
        with parsing(path):
            snapshot = Snapshot.from_json(data)
        own_data = self._own(snapshot_id, snapshot)
        return data if own_data is snapshot else own_data.to_json()

    def is_foreign(self, snapshot_id: int) -> bool:
        """Returns whether a process of an earlier table has created this snapshot. Raises NotFound."""
        return is_foreign(self._read.read(self.io, self.paths.snapshot(snapshot_id)), self.paths.schema)

    def _own(self, snapshot_id: int, snapshot: Snapshot) -> Snapshot:
        if not is_foreign(snapshot, self.paths.schema):
            return snapshot
        return empty_commit(snapshot_id, None if snapshot_id == 1 else self.read(snapshot_id - 1))

    def _is_deleted_or_foreign(self, snapshot_id: int) -> bool:
        try:
            return self.is_foreign(snapshot_id)
        except NotFound:
            return True

    @contextlib.contextmanager
    def reading(self, snapshot_id: int | None, table: str) -> Iterator[None]:
        """Context of a snapshot read (None: no snapshot) that explains NotFound if the snapshot has expired."""
        try:
            yield
        except NotFound as why:
            if not snapshot_id or self.io.exists(self.paths.snapshot(snapshot_id)):
                raise
            raise NotFound(
                f"snapshot {snapshot_id} of table {table} expired while it was read ({why}): read again to get the "
                "newest rows. To allow longer reads, raise 'snapshot.time-retained', or keep the snapshot with a "
                "tag or a 'consumer-id'"
            ) from why

    def latest(self, last: Snapshot | None = None) -> Snapshot | None:
        """The newest snapshot; None for a table without snapshots.

        ``last`` was the newest at an earlier moment. It is returned if no snapshot follows it, to a caller who looks
        later whether it still exists (``TableCommit``).
        """
        if last is not None and not self.exists(last.id + 1):
            return last
        hint = self._hint(LATEST)
        if hint is not None:
            with contextlib.suppress(NotFound):
                newest = self.read(hint)
                if not self.exists(hint + 1):
                    return newest
        listed = self._listed(hint)
        return None if listed is None else self.get(listed)

    def backwards(self, start: Snapshot | None = None) -> Iterator[Snapshot]:
        """The snapshots from ``start`` (None: the newest) back to the oldest one that has not expired."""
        snapshot = self.latest() if start is None else start
        while snapshot is not None:
            yield snapshot
            try:
                snapshot = self.read(snapshot.id - 1)
            except NotFound:
                return

    def find(
        self, user: str, identifier: int, kind: str | None = None, start: Snapshot | None = None, after: int = 0
    ) -> Snapshot | None:
        """The snapshot of one commit, searched from ``start`` (None: the newest) back to ids above ``after``.

        Identifiers of a user increase, so a smaller one of the same user and kind ends the search.
        """
        for snapshot in self.backwards(start):
            if snapshot.id <= after:
                return None
            if snapshot.commit_user == user and kind in (None, snapshot.commit_kind):
                if snapshot.commit_identifier == identifier:
                    return snapshot
                if snapshot.commit_identifier < identifier:
                    return None
        return None

    def write_hint(self, name: str, snapshot_id: int) -> None:
        """Writes a hint on a best-effort basis; readers verify it, because it may be missing or old."""
        try:
            self.io.write_hint(self.paths.snapshot_hint(name), str(snapshot_id).encode())
        except LakelogError:
            return

    def _hint(self, name: str) -> int | None:
        try:
            return int(self.io.read(self.paths.snapshot_hint(name)))
        except (NotFound, ValueError):
            return None


def is_foreign(snapshot: Snapshot, schema: TableSchema) -> bool:
    """Returns whether a snapshot names another table; those of Paimon and of early versions name none."""
    return is_of_another_table(snapshot.properties or {}, schema.options)


def is_empty_commit(snapshot: Snapshot) -> bool:
    """Returns whether a snapshot is an ``empty_commit``, which stands for a foreign one."""
    return snapshot.commit_user == TABLE_ID


def empty_commit(number: int, before: Snapshot | None) -> Snapshot:
    """What stands for a foreign snapshot: a commit that changes nothing in the snapshot before it (None: no snapshot).

    Its delta list is that of the snapshot before it. No reader of changes looks at that of a compaction.
    """
    if before is None:
        return Snapshot(number, 0, "", "", TABLE_ID, 0, COMPACT, 0, 0, 0)
    return replace(
        before,
        id=number,
        commit_user=TABLE_ID,
        commit_identifier=0,
        commit_kind=COMPACT,
        delta_record_count=0,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )


@dataclass(frozen=True)
class ChangeHistory:
    """The changes of one branch, snapshot by snapshot, back to the oldest that a snapshot or a changelog records."""

    snapshots: Snapshots

    def get(self, snapshot_id: int) -> Snapshot:
        """A snapshot, or its remaining changelog, which may reference deleted data files.

        Raises NotFound if neither exists.
        """
        # expiry writes the changelog before it deletes the snapshot
        with contextlib.suppress(NotFound):
            return self.snapshots.read(snapshot_id)
        with contextlib.suppress(NotFound):
            return read_as(self.snapshots.io, self.snapshots.paths.changelog(snapshot_id), Snapshot.from_json)
        return self.snapshots.get(snapshot_id)

    def earliest_id(self) -> int | None:
        """The first id from which on all changes are recorded; None for a table without snapshots."""
        earliest = self.snapshots.earliest_id()
        if earliest is None:
            return None
        names = (
            _CHANGELOG_NAME.fullmatch(status.name) for status in self.snapshots.io.list(self.snapshots.paths.changelogs)
        )
        kept = {int(match[1]) for match in names if match}
        while earliest - 1 in kept:
            earliest -= 1
        return earliest


GetSnapshot = Callable[[int], Snapshot]


def pick_by_time(get: GetSnapshot, earliest: int, latest: int, millis: int) -> Snapshot | None:
    """The newest snapshot committed at ``millis`` (ms since 1970) or before; None if all are newer.

    Assumes that snapshots are committed in the order of their ids.
    """
    newest: Snapshot | None = None
    while earliest <= latest:
        middle = (earliest + latest) // 2
        snapshot = get(middle)
        if snapshot.time_millis <= millis:
            newest, earliest = snapshot, middle + 1
        else:
            latest = middle - 1
    return newest


def pick_by_watermark(get: GetSnapshot, earliest: int, latest: int, watermark: int) -> Snapshot | None:
    """The first snapshot whose watermark is ``watermark`` or later; None if all watermarks are earlier.

    Watermarks never decrease. Snapshots before the first one with a watermark count as earlier.
    """
    oldest: Snapshot | None = None
    while earliest <= latest:
        middle = (earliest + latest) // 2
        snapshot = get(middle)
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            oldest, latest = snapshot, middle - 1
        else:
            earliest = middle + 1
    return oldest
