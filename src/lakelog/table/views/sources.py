"""How far a materialized view is behind each of its sources, from metadata alone."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidRequest, LakelogError, NotFound
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import is_undone, waiting_epochs, waiting_position
from lakelog.table.views.definition import ViewDefinition
from lakelog.table.views.position import SourcePosition, ViewPosition

CURRENT: Final = "current"
BEHIND: Final = "behind"
DROPPED: Final = "dropped"
REPLACED: Final = "replaced"
UNREADABLE: Final = "unreadable"


@dataclass(frozen=True)
class SourceState:
    """A source of a view, as of now.

    ``state`` is ``current``, ``behind``, ``dropped``, ``replaced`` (dropped and created again) or ``unreadable``, whose
    ``why`` is the error. ``position`` is the snapshot whose rows the view has (0: before the first), None if the next
    refresh computes all rows. ``newest`` is the newest snapshot, None without one. ``behind`` is the number of commits
    that the view lacks, with decided epochs that have no snapshot; None if unknown, as in an older copy of the source.
    ``since_ms`` is the commit time of the oldest of them, in ms since 1970.
    """

    name: str
    state: str
    position: int | None = None
    newest: int | None = None
    behind: int | None = None
    since_ms: int | None = None
    why: str = ""

    def lag_ms(self, now_ms: int) -> int | None:
        """The age of the oldest commit that the view lacks, 0 if it is current, None if unknown."""
        if self.state == CURRENT:
            return 0
        return None if self.since_ms is None else max(0, now_ms - self.since_ms)


def source_states(view: DynamicTable, definition: ViewDefinition) -> tuple[SourceState, ...]:
    """The state of each source of a view, by name; a few small reads of each.

    Raises InvalidRequest for a handle that does not know other tables, Unavailable for the storage of the view.
    """
    if view.others is None:
        raise InvalidRequest(f"the sources of view {view.name} are not known here: open it with lakelog.connect()")
    undone = is_undone(view, definition.writer)
    at = (None if undone else ViewPosition.parse(waiting_position(view, definition.writer))) or ViewPosition()
    return tuple(_state(view, name, at.sources.get(name)) for name in sorted(definition.sources))


def missing_views(source: DynamicTable) -> tuple[tuple[str, str], ...]:
    """The consumers that keep snapshots of a table for a view that is not there, each with the name of the view.

    Nothing is said of a view that cannot be opened. Raises Unavailable.
    """
    if source.others is None:
        return ()
    missing = []
    for consumer in source.store.consumers.list():
        if not consumer.view:
            continue
        try:
            definition = ViewDefinition.of(source.others(consumer.view).schema)
        except NotFound:
            definition = None
        except LakelogError:
            continue
        if definition is None or definition.writer != consumer.name:
            missing.append((consumer.name, consumer.view))
    return tuple(missing)


def _state(view: DynamicTable, name: str, at: SourcePosition | None) -> SourceState:
    position = None if at is None else at.snapshot
    assert view.others is not None
    try:
        source = view.others(name)
        if at is not None and at.table != source.identity.text:
            return SourceState(name, REPLACED, position)
        epochs = waiting_epochs(source)
        newest = epochs.snapshot
        waiting = [record.time_ms for record in epochs.waiting]
        if not waiting and at == SourcePosition.of(source, newest):
            return SourceState(name, CURRENT, position, None if newest is None else newest.id, 0)
        number, since_ms = _missed(source, at or SourcePosition.of(source, None), newest)
    except NotFound:
        return SourceState(name, DROPPED, position)
    except LakelogError as why:
        return SourceState(name, UNREADABLE, position, why=f"{type(why).__name__}: {why}")
    behind = None if number is None else number + len(waiting)
    times = [time for time in (since_ms, *waiting) if time is not None]
    return SourceState(name, BEHIND, position, None if newest is None else newest.id, behind, min(times, default=None))


def _missed(source: DynamicTable, at: SourcePosition, newest: Snapshot | None) -> tuple[int | None, int | None]:
    """The number of snapshots after a position, None in an older copy; and the time of the first that exists."""
    if at == SourcePosition.of(source, newest):
        return 0, None
    if newest is None or newest.id <= at.snapshot:
        return None, None if newest is None else newest.time_millis
    earliest = source.store.earliest_snapshot_id() or newest.id
    first = newest
    with contextlib.suppress(NotFound):  # expired meanwhile
        first = source.store.snapshot(max(at.snapshot + 1, earliest))
    return newest.id - at.snapshot, first.time_millis
