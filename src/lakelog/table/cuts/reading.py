"""The cut that a read asks for (``read.cut``), and its snapshot of a table.

Whatever has become of a table since, the result is the snapshot of that moment or an error that names the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakelog.errors import NotFound
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.filestore.store import FileStore
from lakelog.options.names import visible
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.cuts.cut import NEWEST, Cut, group_and_number
from lakelog.table.cuts.records import CutRecords
from lakelog.table.model.published_links import fingerprint_of


def newest_cut(stores: Sequence[FileStore]) -> Cut:
    """The newest cut that all these tables have. Raises NotFound naming the tables."""
    records = [_records(store) for store in stores]
    listed = [one.numbers() for one in records]
    for store, numbers in zip(stores, listed, strict=True):
        if not numbers:
            raise NotFound(
                f"table {store.name} has no cut: only tables that one 'lakelog ingest' fills have cuts, once all of "
                "them are copied"
            )
    groups = set.intersection(*(set(numbers) for numbers in listed))
    cuts = [cut for group in sorted(groups) if (cut := _newest_of(group, records, listed)) is not None]
    if not cuts:
        each = "; ".join(f"{s.name}: {', '.join(n)}" for s, n in zip(stores, listed, strict=True))
        raise NotFound(f"these tables have no cut in common ({each}): read them without '{NEWEST}' cuts")
    return max(cuts, key=lambda cut: cut.time_ms)


def snapshot_in_cut(store: FileStore, name: str) -> Snapshot:
    """The snapshot of a table in a cut: ``newest``, which is the newest of this table, or the name of a cut.

    Raises NotFound if there is no such cut or its snapshot has expired, InvalidOption for another text.
    """
    return member_snapshot(store, newest_cut([store]) if name.strip().lower() == NEWEST else _named(store, name))


def member_snapshot(store: FileStore, cut: Cut) -> Snapshot:
    """The snapshot of a table in a cut. Raises NotFound if the table is not in it, or the snapshot is gone."""
    member = cut.member(_records(store).table_id)
    if member is None:
        names = ", ".join(one.table for one in cut.members)
        raise NotFound(
            f"table {store.name} is not in cut {cut.name}, which has {names}: it joined the group later, left it, or "
            "was dropped and created again"
        )
    try:
        snapshot = store.snapshot(member.snapshot)
    except NotFound:
        raise NotFound(
            f"snapshot {member.snapshot} of table {store.name} has expired, so cut {cut.name} cannot be read: use a "
            "newer cut"
        ) from None
    if fingerprint_of(snapshot) != member.mark:
        raise NotFound(
            f"table {store.name} was rolled back by another engine since cut {cut.name}: snapshot {member.snapshot} is "
            "another one now. Use a newer cut"
        )
    return snapshot


def _named(store: FileStore, name: str) -> Cut:
    group, number = group_and_number(name.strip())
    records = _records(store)
    cut = records.read(group, number)
    if cut is None or cut.name != name.strip():
        known = records.numbers().get(group, ())
        has = f"it has {known[0]} to {known[-1]} of that group" if known else "it has none of that group"
        raise NotFound(f"table {store.name} has no cut '{visible(name)}'; {has}")
    return cut


def _records(store: FileStore) -> CutRecords:
    if store.branch != MAIN_BRANCH:
        raise NotFound(f"branch '{store.branch}' of table {store.name} has no cuts: read the table itself")
    return CutRecords.of(store)


def _newest_of(group: str, records: Sequence[CutRecords], listed: Sequence[Mapping[str, Sequence[int]]]) -> Cut | None:
    """The newest cut of a group of which all have the same record; a crash may have left it to some of them only."""
    common = set.intersection(*(set(numbers[group]) for numbers in listed))
    return next((cut for number in sorted(common, reverse=True) for cut in _same(group, number, records)), None)


def _same(group: str, number: int, records: Sequence[CutRecords]) -> Iterator[Cut]:
    """The cut of a number, if it is one and the same in all tables and has all of them."""
    first, *others = (one.read(group, number) for one in records)
    is_shared = first is not None and all(cut is not None and cut.id == first.id for cut in others)
    if first is not None and is_shared and all(first.member(one.table_id) is not None for one in records):
        yield first
