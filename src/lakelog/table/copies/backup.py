"""Backup of a table: a copy of one snapshot in another place, consistent while writers run (RFC 26)."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, UnsupportedFeature
from lakelog.filestore.gc.reachability import TAG, GcRoot
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.io.clock import now_ms
from lakelog.io.metrics import METER
from lakelog.options.metrics import BACKUP_BYTES
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.seal import seal_decided
from lakelog.table.copies.backup_store import BackedUpTable, BackupPoint, BackupStore
from lakelog.table.copies.file_copies import CopiedFile, FileCopies, StateFiles
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import FOLLOWER, LogState, newest_state, state_at
from lakelog.table.write.materializer import LogMaterializer

_HELD: Final = timedelta(days=7)
"""Time for which the tag of a backup that was killed keeps its snapshot."""
_TRIES: Final = 10
"""Number of snapshots that may expire before they are tagged."""


def back_up(
    table: DynamicTable,
    store: BackupStore,
    keep: int | None = None,
    tag: str | None = None,
    files_only: bool = False,
) -> BackupPoint:
    """Copies the newest snapshot, or that of a tag, into a backup; returns the new point.

    1 seal the decided epochs, and write log-first rows to files, so that the snapshot has every row that is committed
    now · 2 tag the snapshot, so that it does not expire meanwhile · 3 copy the files that no earlier point has ·
    4 create the point · 5 prune to ``keep`` points, and delete the tag. Nothing waits for the backup. A crash leaves
    the earlier points whole, and files that the next backup uses or deletes. Raises InvalidRequest (a directory of
    another table, a branch), UnsupportedFeature (rows that are in the log alone, unless ``files_only``), NotFound for
    the tag, Unavailable.
    """
    if table.branch != MAIN_BRANCH or table.view is not None:
        raise InvalidRequest(f"{table.name} cannot be backed up: name the table itself")
    if keep is not None and keep < 1:
        raise InvalidRequest(f"a backup cannot keep {keep} points: keep one or more")
    table = table.whole.with_newest_schema()
    table.check_identity()
    store.begin(BackedUpTable(table.name, table.identity.text))
    with store.leased():
        # 1
        if tag is None:
            _complete(table)
        # 2
        with _held(table, store, tag) as (snapshot, state):
            if not files_only:
                _check_rows(table, state)
            # 3, 4
            point = _copy(table, store, snapshot, state)
        # 5
        if keep is not None:
            store.prune(keep)
    METER.add(BACKUP_BYTES, point.new_bytes, table=table.name)
    return point


def verify(store: BackupStore) -> list[BackupPoint]:
    """Reads all files of all points and compares their checksums; returns the points. Raises Corrupt, NotFound."""
    points = store.points()
    files = {name: copied for point in points for name, copied in point.files.items()}
    FileCopies(store.io, store.files, store.io, store.files).check(files)
    return points


def _complete(table: DynamicTable) -> None:
    """Brings all committed rows into files."""
    if table.log is None:
        return
    seal_decided(table)
    _, state = newest_state(table.store)
    if FOLLOWER in state.writers or FOLLOWER in table.registered.writers():
        for _ in LogMaterializer(table).follow("latest"):
            pass


@contextlib.contextmanager
def _held(table: DynamicTable, store: BackupStore, tag: str | None) -> Iterator[tuple[Snapshot | None, LogState]]:
    """Context with a snapshot that does not expire, and its log state."""
    if tag is not None:
        snapshot = table.store.tags.get(tag).snapshot
        yield snapshot, state_at(table.store, snapshot)
        return
    name = f"lakelog-backup-{hashlib.sha256(store.root.encode()).hexdigest()[:12]}"
    point = _tagged(table, name)
    try:
        yield point
    finally:
        if point[0] is not None:
            with contextlib.suppress(NotFound):
                table.store.tags.delete(name)


def _tagged(table: DynamicTable, name: str) -> tuple[Snapshot | None, LogState]:
    tags = table.store.tags
    with contextlib.suppress(NotFound):  # of a backup that was killed; the lease excludes another one
        tags.delete(name)
    for left in reversed(range(_TRIES)):
        snapshot, state = newest_state(table.store)
        if snapshot is None:
            return None, state
        try:
            tags.create(name, snapshot.id, _HELD)
            return snapshot, state
        except (AlreadyExists, NotFound):
            if not left:
                raise
    raise AssertionError


def _copy(table: DynamicTable, store: BackupStore, snapshot: Snapshot | None, state: LogState) -> BackupPoint:
    points = store.points()
    known = {name: copied for point in points for name, copied in point.files.items()}
    names = {f"schema/schema-{number}" for number in table.store.branches.schema_ids(MAIN_BRANCH)}
    if snapshot is not None:
        root = GcRoot(table.store.paths.snapshot(snapshot.id), snapshot, TAG)
        names |= StateFiles(table).of(root, state)
    new = FileCopies(table.io, table.path, store.io, store.files).copy(names - set(known))
    files: dict[str, CopiedFile] = {name: new.get(name) or known[name] for name in sorted(names)}
    now = now_ms()
    point = BackupPoint(
        snapshot=0 if snapshot is None else snapshot.id,
        time_ms=now if snapshot is None else snapshot.time_millis,
        made_ms=now,
        snapshot_json="" if snapshot is None else snapshot.to_json().decode(),
        properties=state.to_properties(),
        log_offsets=state.offsets,
        tags=_tags_of(table, snapshot),
        files=files,
        new_files=len(new),
        new_bytes=sum(copied.size for copied in new.values()),
    )
    table.check_identity()
    return store.create(point, max((known.number for known in points), default=0))


def _tags_of(table: DynamicTable, snapshot: Snapshot | None) -> tuple[str, ...]:
    if snapshot is None:
        return ()
    tags: Sequence[str] = [tag.name for tag in table.store.tags.list() if tag.snapshot.id == snapshot.id]
    return tuple(name for name in tags if not name.startswith("lakelog-backup-"))


def _check_rows(table: DynamicTable, state: LogState) -> None:
    """Raises UnsupportedFeature if some rows are in the log alone."""
    if state.log_only:
        bucket, offset = min(state.log_only.items())
        raise UnsupportedFeature(
            f"table {table.name} has rows in its log that no file will have ('emit.mode' = 'log', from offset {offset} "
            f"of bucket {bucket} on), and a backup copies files: pass files_only to leave them out, or mirror the log "
            "with 'lakelog mirror'"
        )
