"""The model of one table: what a user was promised, in dicts and lists. It knows neither files nor a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from merge_reference import NoResult, Row
from model.kinds import converted, plain
from model.predicates import Condition
from model.tables import Column, Table, may_hide

Values = dict[str, Any]
"""A row by the ids of its columns."""
Rows = dict[tuple[Any, ...], tuple[Row, ...]] | tuple[Values, ...]
"""The rows of each key, as they were written; without a key all rows."""


class NotPossible(Exception):
    """The step means nothing in this state: it was taken out of its history."""


class Refused(Exception):
    """The statement has to be refused, and to change nothing."""


class Violated(Refused):
    """A row violates a constraint, which is found once the write has begun."""


@dataclass(frozen=True)
class State:
    """Rows, those of them that are seen, and the columns that they have to those who look back at them."""

    rows: Rows
    seen: Rows
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Handle:
    """The columns, options and constraints that a table had when a job opened it."""

    columns: tuple[Column, ...]
    options: Mapping[str, str]
    checks: Mapping[str, Check]


@dataclass(frozen=True)
class Check:
    """A constraint: its condition, and ``fail``, ``reject`` or ``warn``."""

    condition: Condition
    action: str


@dataclass
class World:
    """The state after a step. ``marks`` are the states after earlier steps, ``tags`` those that they name. ``waits``:
    an epoch is committed, and has no snapshot yet. ``begins_late``: the log has no rows of before it was added.
    ``rejects``: some rows were rejected. ``had_checks``: an earlier schema may have a constraint."""

    table: Table
    columns: tuple[Column, ...]
    options: dict[str, str]
    rows: Rows
    seen: Rows
    number: int = 0
    made: int = 10
    streams: int = 0
    marks: dict[int, State] = field(default_factory=dict)
    tags: dict[str, State] = field(default_factory=dict)
    handles: dict[str, Handle] = field(default_factory=dict)
    newest: State | None = None
    follows: bool = False
    begins_late: bool = False
    waits: bool = False
    checks: dict[str, Check] = field(default_factory=dict)
    had_checks: bool = False
    rejects: bool = False

    @staticmethod
    def of(table: Table) -> World:
        """A new table."""
        empty: Rows = {} if table.key else ()
        return World(table, table.columns, dict(table.options), empty, empty)

    def twin(self) -> World:
        """A copy that may change."""
        own = {name: dict(getattr(self, name)) for name in ("options", "marks", "tags", "handles", "checks")}
        return replace(self, **own)

    def handle(self, name: str) -> Handle:
        """What a handle knows; every other one than an old one knows what is there."""
        return self.handles.get(name) or Handle(self.columns, self.options, self.checks)

    # columns

    def column(self, name: str, handle: str = "t") -> Column:
        """A column by name, as a handle knows it."""
        for column in self.handle(handle).columns:
            if column.name == name:
                return column
        raise NotPossible(name)

    @property
    def names(self) -> dict[str, str]:
        """Id → name."""
        return {column.id: column.name for column in self.columns}

    @property
    def keys(self) -> tuple[str, ...]:
        """The ids of the key."""
        return tuple(column.id for column in self.table.columns if column.name in self.table.key)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The ids of the partition columns."""
        return tuple(column.id for column in self.table.columns if column.name in self.table.partitions)

    @property
    def hides_new(self) -> bool:
        """Whether some rows wait for a compaction."""
        return may_hide(self.table) and self.seen is not self.rows

    # changes

    def put(self, values: Values, kind: int = 0, rejecting: str = "") -> None:
        """Writes a row of a kind; ``rejecting`` is the handle of a writer that may reject it."""
        if kind in (0, 2) and self._is_rejected(values, rejecting):
            self.rejects = True
            return
        self.number += 1
        if not isinstance(self.rows, dict):
            self.rows = (*self.rows, values)
            return
        key = self.key_of(values)
        if None in key:
            raise Refused("a key is NULL")
        if self.table.is_plain:
            rows = {name: held for name, held in self.rows.items() if name != key}
            if kind in (0, 2):
                rows[key] = (Row(self.number, kind, values),)
        else:
            rows = dict(self.rows)
            rows[key] = (*rows.get(key, ()), Row(self.number, kind, values))
        self.rows = rows

    def breaks(self, values: Values) -> bool:
        """True if a row violates a constraint."""
        row = self._shown(values)
        return any(check.condition.holds(row) is False for check in self.checks.values())

    def check(self, values: Values) -> None:
        """Raises Refused for a row that violates a constraint, and is not only warned of."""
        self._is_rejected(values, "")

    def _is_rejected(self, values: Values, rejecting: str) -> bool:
        row = self._shown(values)
        broken = {name: check for name, check in self.checks.items() if check.condition.holds(row) is False}
        for name, check in broken.items():
            is_known = rejecting and self.handle(rejecting).checks.get(name) == check
            if check.action == "fail" or (check.action == "reject" and not is_known):
                raise Violated(f"a row violates constraint {name}")
        return any(check.action == "reject" for check in broken.values())

    def retract(self, values: Values) -> None:
        """Takes a row back."""
        self.put(values, 3)

    def key_of(self, values: Values) -> tuple[Any, ...]:
        """The key of a row."""
        return tuple(plain(values[name]) for name in self.keys)

    def keep(self, wanted: Callable[[Values], bool], drops_files: bool = True) -> None:
        """Replaces the table by those of its rows that are wanted: the history of the others ends.

        ``drops_files``: readers see it before a compaction.
        """
        is_seen = self.seen is self.rows
        if drops_files and not is_seen:
            shown = replace(self, rows=self.seen)
            shown.seen = shown.rows
            shown.keep(wanted)
            self.seen = shown.rows
        if isinstance(self.rows, dict):
            gone = {self.key_of(values) for values in self.live() if not wanted(values)}
            there = {self.key_of(values) for values in self.live()}
            gone |= {
                key for key, rows in self.rows.items() if key not in there and not wanted(self._shown(rows[-1].values))
            }
            self.rows = {key: rows for key, rows in self.rows.items() if key not in gone}
        else:
            self.rows = tuple(values for values in self.rows if wanted(self._shown(values)))
        if drops_files and is_seen:
            self.seen = self.rows

    # what is there

    def live(self, rows: Rows | None = None) -> list[Values]:
        """The rows of a state (None: the newest), each with its current columns."""
        held = self.rows if rows is None else rows
        if not isinstance(held, dict):
            return [self._shown(values) for values in held]
        merge = replace(self.table.merge, columns={c.id: c.kind.upper() for c in self.columns})
        found = []
        for written in held.values():
            own = [replace(row, values={c.id: row.values.get(c.id) for c in self.columns}) for row in written]
            try:
                folded = merge.fold(own)
            except NoResult as why:
                raise Refused(str(why)) from None
            if folded is not None and not folded.is_retract:
                found.append(self._shown(folded.values))
        return found

    def _shown(self, values: Values) -> Values:
        return {column.id: converted(values.get(column.id), column.kind) for column in self.columns}

    def tuples(self, rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """Rows as readings show them: in a fixed order."""
        return sorted((tuple(plain(row[c.id]) for c in self.columns) for row in rows), key=repr)

    def earlier(self, state: State) -> list[tuple[Any, ...]]:
        """The rows of an earlier state."""
        then = replace(self, columns=state.columns)
        return then.tuples(then.live(state.seen))

    def visible(self) -> list[tuple[Any, ...]]:
        """What a batch read shows."""
        return self.tuples(self.live(self.seen if self.hides_new else None))

    def everything(self) -> list[tuple[Any, ...]]:
        """What both stores together show; a log that follows the files knows no more than they."""
        return self.visible() if self.table.log_follows else self.tuples(self.live())

    def partition_of(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The partition of a row."""
        return tuple(plain(values[name]) for name in self.partitions)
