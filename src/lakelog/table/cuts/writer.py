"""Records cuts: which snapshots of a group's tables belong to one moment.

Whoever knows that may record it: ``lakelog ingest`` does so for its tables, a view for itself and its sources.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound
from lakelog.filestore.store import FileStore
from lakelog.io.clock import now_ms
from lakelog.io.names import new_attempt
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.cuts.cut import Cut, CutMember
from lakelog.table.cuts.records import CutRecords
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import fingerprint_of

KEPT_CUTS: Final = 100
"""Number of cuts of a group that stay. Expiry keeps their snapshots."""
_FORGET_EVERY: Final = 10
"""Number of cuts after which older ones are deleted."""


@dataclass(frozen=True)
class CutTable:
    """A table of a new cut, with its snapshot of that moment."""

    table: DynamicTable
    snapshot: Snapshot


def record_cut(group: str, tables: Sequence[CutTable], position: str) -> Cut | None:
    """Records that these snapshots belong to one moment; None if another process has recorded one meanwhile.

    The snapshots have exactly what comes before ``position`` of their source, which the caller has checked.

    1. Take the number after the newest of all tables.
    2. Register the group as a consumer of each table, so that expiry keeps the snapshots; check that they exist.
    3. Create a copy of the record in each table. Each copy is right alone, so a crash in between does no harm.
    4. Each ten cuts, delete the copies beyond the newest 100, and move the consumers after them.

    Raises NotFound if a snapshot has expired, TableReplaced, CommitUnknown, Unavailable, InvalidRequest for the name of
    the group.
    """
    records = [CutRecords.of(one.table.store) for one in tables]
    # 1
    number = 1 + max((max(one.numbers().get(group, (0,))) for one in records), default=0)
    members = tuple(
        CutMember(copies.table_id, one.table.name, one.snapshot.id, fingerprint_of(one.snapshot))
        for copies, one in zip(records, tables, strict=True)
    )
    cut = Cut(group, number, new_attempt()[:8], now_ms(), position, members)
    # 2
    for one in tables:
        one.table.check_identity()
        _register(one.table.store, group, one.snapshot)
    # 3
    for copies in records:
        if not copies.create(cut):
            return None
    # 4
    if number > KEPT_CUTS and number % _FORGET_EVERY == 0:
        for copies, one in zip(records, tables, strict=True):
            _forget(one.table.store, copies, group, number - KEPT_CUTS + 1)
    return cut


def forget_cuts(table: DynamicTable, group: str) -> None:
    """Deletes all cuts of a group in a table, which is not written with the others any more. Raises Unavailable."""
    records, consumers = CutRecords.of(table.store), table.store.consumers
    newest = max(records.numbers().get(group, (0,)))
    records.delete_below(group, newest + 1)
    with contextlib.suppress(NotFound):
        consumers.delete(_consumer(group))


def _consumer(group: str) -> str:
    return f"cut-{group}"


def _register(store: FileStore, group: str, snapshot: Snapshot) -> None:
    """Keeps a snapshot and all later ones, unless earlier ones are kept already. Raises NotFound."""
    known = store.consumers.position(_consumer(group))
    if known is None or known > snapshot.id:
        store.consumers.record(_consumer(group), snapshot.id)
    if fingerprint_of(store.snapshot(snapshot.id)) != fingerprint_of(snapshot):
        raise NotFound(f"snapshot {snapshot.id} of table {store.paths.table} is not the one of the cut any more")


def _forget(store: FileStore, records: CutRecords, group: str, number: int) -> None:
    """Deletes the copies below a number; then the snapshots before those of the oldest one may expire."""
    records.delete_below(group, number)
    left = records.numbers().get(group, ())
    oldest = next((cut for n in left if (cut := records.read(group, n)) is not None), None)
    member = None if oldest is None else oldest.member(records.table_id)
    if member is not None:
        store.consumers.record(_consumer(group), member.snapshot)
