"""The tags of a branch: named snapshots that expiry keeps (format sheet 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, did_you_mean
from lakelog.filestore.gc.reachability import TAG, GcRoot, ReachableFiles
from lakelog.filestore.gc.removal import Removal
from lakelog.io import clock
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.options.names import name_fault, visible
from lakelog.options.option import Options
from lakelog.options.retention import TAG_TIME
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.tag import Tag, snapshot_json_of, tag_from_json, tag_to_json
from lakelog.paimon.types.checked_values import read_as


@dataclass(frozen=True)
class Tags:
    """The tags of one branch of a table."""

    references: ReachableFiles
    after: Callable[[], None] = lambda: None
    """Called after a change."""

    def list(self) -> Sequence[Tag]:
        """All tags, by snapshot and name."""
        return self.references.tags()

    def get(self, name: str) -> Tag:
        """One tag. Raises NotFound, which suggests the closest one."""
        try:
            return read_as(self.references.io, self.references.paths.tag(name), partial(tag_from_json, name))
        except NotFound:
            there = [tag.name for tag in self.list()]
            hint = did_you_mean(name, there, f"; it has: {', '.join(there) or 'none'}")
            raise NotFound(f"table {self.references.paths.table} has no tag '{name}'{hint}") from None

    def exists(self, name: str) -> bool:
        """Returns whether the tag exists; no tag has a '/' in its name."""
        return "/" not in name and self.references.io.exists(self.references.paths.tag(name))

    def create(
        self,
        name: str,
        snapshot_id: int | None = None,
        retained: timedelta | None = None,
        if_not_exists: bool = False,
    ) -> Tag:
        """Tags a snapshot (None: the newest), without limit or for the time ``retained``.

        Without ``retained`` the option ``tag.default-time-retained`` applies. Raises AlreadyExists unless
        ``if_not_exists`` or the tag already names this snapshot. Raises NotFound for a snapshot that does not exist or
        expires concurrently.
        """
        _check_name(name)
        path, io = self.references.paths.tag(name), self.references.io
        if if_not_exists and io.exists(path):
            return self.get(name)
        found_id = self._snapshot_id(snapshot_id)
        data = self._tag_bytes(found_id, retained)
        if not io.create(path, data):
            there = self.get(name)
            if if_not_exists or there.snapshot.id == found_id:
                return there
            raise AlreadyExists(
                f"tag '{name}' exists and points to snapshot {there.snapshot.id}: choose another name, or replace it"
            )
        if not self._is_protected(found_id, name):
            io.delete(path)
            raise self._snapshot_not_found(found_id)
        self.after()
        return tag_from_json(name, data)

    def import_state(self, name: str, state: Snapshot) -> None:
        """Names a state whose files were copied into the table; moves the tag if it exists. Raises InvalidRequest."""
        _check_name(name)
        self.references.io.write(self.references.paths.tag(name), state.to_json())
        self.after()

    def replace(self, name: str, snapshot_id: int | None = None, retained: timedelta | None = None) -> Tag:
        """Moves a tag to another snapshot (None: the newest) and deletes files that only the old one referenced.

        Raises NotFound for an unknown tag or snapshot.
        """
        old = self.get(name)
        found_id = self._snapshot_id(snapshot_id)
        data = self._tag_bytes(found_id, retained)
        root = GcRoot(self.references.paths.tag(name), old.snapshot, TAG)
        old_data = self.references.io.read(root.path)
        removal = Removal(self.references)

        def swap() -> None:
            self.references.io.write(root.path, data)
            if not self._is_protected(found_id, name):
                self.references.io.write(root.path, old_data)
                raise self._snapshot_not_found(found_id)

        removal.remove((), self._files(root), removal.all_roots, before=swap)
        self.after()
        return tag_from_json(name, data)

    def rename(self, name: str, new_name: str) -> Tag:
        """Renames a tag; writes the new one before it deletes the old one. Raises NotFound, AlreadyExists."""
        _check_name(new_name)
        io, paths = self.references.io, self.references.paths
        tag = self.get(name)
        data = io.read(paths.tag(name))
        if not io.create(paths.tag(new_name), data) and io.read(paths.tag(new_name)) != data:
            raise AlreadyExists(f"tag '{new_name}' exists: choose another name, or delete it first")
        io.delete(paths.tag(name))
        self.after()
        return replace(tag, name=new_name)

    def delete(self, name: str) -> Tag:
        """Deletes a tag and the files that only it referenced. Raises NotFound."""
        tag = self.get(name)
        root = GcRoot(self.references.paths.tag(name), tag.snapshot, TAG)
        removal = Removal(self.references)
        removal.remove([root], self._files(root), removal.all_roots)
        self.after()
        return tag

    def expire(self, now: datetime | None = None, older_than: datetime | None = None) -> Sequence[Tag]:
        """Deletes the tags whose retention has expired, and tags without one that are older than ``older_than``.

        Both times are wall clock of this machine's zone, without a zone; ``now`` defaults to the storage's time.
        Returns the deleted tags.
        """
        expired = self.over(now, older_than)
        if expired and now is None:
            expired = self.over(self._storage_now(), older_than)
        for tag in expired:
            self.delete(tag.name)
        return expired

    def over(self, now: datetime | None = None, older_than: datetime | None = None) -> Sequence[Tag]:
        """The tags that ``expire`` would delete."""
        now = clock.local_now() if now is None else now
        return [tag for tag in self.list() if self._is_over(tag, now, older_than)]

    def _is_over(self, tag: Tag, now: datetime, older_than: datetime | None) -> bool:
        if tag.ends is not None:
            return tag.ends < now
        if older_than is None:
            return False
        created = tag.created or clock.local_time(tag.snapshot.time_millis)
        return created < older_than

    def _files(self, root: GcRoot) -> set[str]:
        """The files to delete with a tag; none while its snapshot exists."""
        if self.references.snapshots.exists(root.snapshot.id) and self._same(root.snapshot):
            return set()
        return self.references.files_to_delete(root)

    def _same(self, snapshot: Snapshot) -> bool:
        return self.references.snapshots.get(snapshot.id).base_manifest_list == snapshot.base_manifest_list

    def _snapshot_id(self, snapshot_id: int | None) -> int:
        number = self.references.snapshots.latest_id() if snapshot_id is None else snapshot_id
        if number is None:
            raise NotFound(
                f"table {self.references.paths.table} has no snapshot yet: write rows before you create a tag"
            )
        return number

    def _tag_bytes(self, snapshot_id: int, retained: timedelta | None) -> bytes:
        paths, io = self.references.paths, self.references.io
        kept = Options(paths.schema.options).get_typed(TAG_TIME) if retained is None else retained
        try:
            data = self.references.snapshots.content(snapshot_id)
        except NotFound:
            # an expired snapshot with a tag can be tagged again
            named = [tag.name for tag in self.list() if tag.snapshot.id == snapshot_id]
            if not named:
                raise self._snapshot_not_found(snapshot_id) from None
            data = snapshot_json_of(io.read(paths.tag(named[0])))
        return tag_to_json(data, clock.local_now() if kept is None else self._storage_now(), kept)

    def _storage_now(self) -> datetime:
        return clock.local_time(storage_now_ms(self.references.io, self.references.paths.root))

    def _is_protected(self, snapshot_id: int, name: str) -> bool:
        """Returns whether something other than this tag keeps a snapshot; called after the tag is written.

        Expiry deletes a snapshot before it lists the tags. If the snapshot still exists, expiry will see the tag.
        """
        named = (tag.name for tag in self.list() if tag.snapshot.id == snapshot_id)
        return self.references.snapshots.exists(snapshot_id) or any(other != name for other in named)

    def _snapshot_not_found(self, snapshot_id: int) -> NotFound:
        ids = self.references.snapshots.chain_ids()
        has = f"it has snapshots {ids[0]} to {ids[-1]}" if ids else "it has no snapshots"
        return NotFound(f"table {self.references.paths.table} has no snapshot {snapshot_id}; {has}")


def _check_name(name: str) -> None:
    if fault := "a number is a snapshot" if name.isdigit() else name_fault(name):
        raise InvalidRequest(f"'{visible(name)}' cannot be the name of a tag: {fault}")
