"""A batch read of the changes between two snapshots, two tags or two times (format sheet 13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidOption, NotFound
from lakelog.filestore.metadata.snapshots import pick_by_time
from lakelog.filestore.read.changes import (
    AUTO,
    DELTA,
    DIFF,
    AnyChange,
    Changes,
    DiffSplit,
    check_range,
    mode_of,
    read_changes,
    refuse_diff_without_key,
)
from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.snapshot_diff import plan_diff, read_diff, rescaled_partitions
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.filestore.store import FileStore
from lakelog.options.notebook import ViewList
from lakelog.options.option import Options
from lakelog.options.scan import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_MODE,
    INCREMENTAL_TO_AUTO_TAG,
    SCAN_MODE,
)
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, with_kind
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import STRING, DataField
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.base import TableScan, rows_of, without_kind
from lakelog.table.read.time_travel import millis_of

ROW_KIND_FIELD: Final = DataField(2147483643, ROW_KIND_COLUMN, STRING.with_nullable(False))


def with_row_kind(schema: TableSchema) -> TableSchema:
    """The schema of change rows: the table's columns and ``_row_kind``."""
    return replace(schema, fields=(*schema.fields, ROW_KIND_FIELD))


@dataclass(frozen=True, repr=False)
class ChangesScan(TableScan):
    """The changes after snapshot ``first`` up to snapshot ``last``, as rows with a column ``_row_kind``.

    Modes delta and changelog return every change as written. Mode diff compares both states and returns the new and
    changed rows of the later one. With ``keeps_deletes`` it also returns the last rows of deleted keys (-D).
    """

    first: int | Snapshot = 0
    last: int | Snapshot = 0
    mode: str = AUTO
    keeps_deletes: bool = False

    @property
    def row_schema(self) -> TableSchema:
        """The table's columns and ``_row_kind``."""
        return with_row_kind(self.table.schema)

    def _facts(self) -> Mapping[str, object]:
        first, last = _ids(self.first, self.last)
        return {**super()._facts(), "after snapshot": first, "up to snapshot": last}

    def plan(self) -> ViewList[AnyChange]:
        """The splits to read. Raises NotFound if part of the changes has expired."""
        condition = without_kind(self.filter)
        return ViewList(plan_changes(self.table.store, self.first, self.last, self.mode, condition))

    def read(self, split: AnyChange) -> Iterator[pa.RecordBatch]:
        return rows_of(
            self, lambda columns, own: read_change(self.table.store, split, columns, own, self.keeps_deletes)
        )


def _ids(*points: int | Snapshot) -> list[int]:
    return [point.id if isinstance(point, Snapshot) else point for point in points]


def plan_changes(
    store: FileStore, first: int | Snapshot, last: int | Snapshot, mode: str, filter: Predicate | None
) -> list[AnyChange]:
    """The splits of the changes after one snapshot up to another."""
    start, end = _ids(first, last)
    if end < start:
        raise InvalidOption(f"changes from snapshot {start} to {end}: the end is before the start. Swap them")
    if start == end:
        return []
    if mode == DIFF:
        refuse_diff_without_key(store.schema)
        # A filter on non-key columns applies to the result: a row that no longer matches has changed, too.
        before, after = [] if start == 0 else store.plan(first), store.plan(last)
        moved = rescaled_partitions(before, after)
        if store.schema.has_dynamic_buckets:
            moved = {split.partition for split in (*before, *after)}
        return list(plan_diff(before, after, end, moved))
    history = store.change_history
    check_range(start, end, history.earliest_id(), store.snapshots.latest_id(), store.paths.table)
    changes = Changes(store.manifests, store.schema, Pruning(store.schemas, filter))
    snapshots = (history.get(number) for number in range(start + 1, end + 1))
    return list(changes.of_snapshots(snapshots, mode_of(mode, store.schema)))


def read_change(
    store: FileStore, split: AnyChange | Split, columns: Sequence[str], filter: Predicate | None, keeps_deletes: bool
) -> Iterator[pa.RecordBatch]:
    """The matching rows of one split, with ``_row_kind``; the rows of a state are inserts."""
    if isinstance(split, DiffSplit):
        yield from read_diff(store.files, split, columns, filter, keeps_deletes)
    elif isinstance(split, Split):
        for batch in store.read_split(split, columns, filter):
            yield with_kind(batch, "+I")
    else:
        yield from read_changes(store.files, split, columns, filter)


def changes_between(
    table: DynamicTable, between: tuple[int | str, int | str], mode: str, keeps_deletes: bool = False
) -> ChangesScan:
    """The changes between two snapshot ids or two tags. Raises NotFound, InvalidOption."""
    tags = table.store.tags
    names = [str(point).strip() for point in between]
    if all(tags.exists(name) for name in names):
        first, last = (tags.get(name).snapshot for name in names)
        if mode == AUTO:
            mode = DIFF if table.schema.is_keyed else DELTA
        return ChangesScan(table, None, None, first, last, mode, keeps_deletes)
    if not all(name.isdigit() for name in names):
        raise NotFound(
            f"changes between '{names[0]}' and '{names[1]}' of table {table.name}: give two snapshot ids or two tags; "
            f"its tags are: {', '.join(tag.name for tag in tags.list()) or 'none'}"
        )
    return ChangesScan(table, None, None, int(names[0]), int(names[1]), mode, keeps_deletes)


def changes_of_options(table: DynamicTable, keeps_deletes: bool = False) -> ChangesScan | None:
    """The read of changes that the options of this use request; None if they request none."""
    options: Options = table.options
    mode = options.need(INCREMENTAL_MODE)
    if (text := options.get_typed(INCREMENTAL_BETWEEN)) is not None:
        return changes_between(table, _two(INCREMENTAL_BETWEEN.key, text), mode, keeps_deletes)
    if (text := options.get_typed(INCREMENTAL_BETWEEN_TIMESTAMP)) is not None:
        points = _two(INCREMENTAL_BETWEEN_TIMESTAMP.key, text)
        start, end = (millis_of(int(p) if p.strip().isdigit() else p) for p in points)
        return _between_times(table, start, end, mode, keeps_deletes)
    if (name := options.get_typed(INCREMENTAL_TO_AUTO_TAG)) is not None:
        return _to_tag(table, name, mode, keeps_deletes)
    if options.need(SCAN_MODE) == "incremental":
        raise InvalidOption(f"'scan.mode' = 'incremental' needs '{INCREMENTAL_BETWEEN.key}' = '<begin>,<end>'")
    return None


def _to_tag(table: DynamicTable, name: str, mode: str, keeps_deletes: bool) -> ChangesScan:
    """The changes to a tag from the tag before it; without one, none. Raises NotFound."""
    last = table.store.tags.get(name).snapshot
    earlier = [tag.snapshot for tag in table.store.tags.list() if tag.snapshot.id < last.id]
    if mode == AUTO:
        mode = DIFF if table.schema.is_keyed else DELTA
    first = max(earlier, key=lambda snapshot: snapshot.id, default=last)
    return ChangesScan(table, None, None, first, last, mode, keeps_deletes)


def _between_times(table: DynamicTable, start: int, end: int, mode: str, keeps_deletes: bool) -> ChangesScan:
    if end < start:
        raise InvalidOption(f"changes from {start} to {end} (ms since 1970): the end is before the start. Swap them")
    first, last = (id_at_time(table.store, at, with_changelogs=mode != DIFF) for at in (start, end))
    return ChangesScan(table, None, None, first, last, mode, keeps_deletes)


def id_at_time(store: FileStore, millis: int, with_changelogs: bool) -> int:
    """The id of the newest snapshot at or before a time; if all are younger, the id before the oldest.

    With ``with_changelogs``, changelogs that outlived their snapshots count, too.
    """
    earliest = store.change_history.earliest_id() if with_changelogs else store.earliest_snapshot_id()
    latest = store.snapshots.latest_id()
    if earliest is None or latest is None:
        return 0
    snapshot = pick_by_time(store.change_history.get, earliest, latest, millis)
    return earliest - 1 if snapshot is None else snapshot.id


def _two(key: str, text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise InvalidOption(f"option '{key}' = '{text}': write '<begin>,<end>'")
    return parts[0], parts[1]
