"""Reference model of a keyed table: its rows, their visibility, and its changelog (sheet 7-9).

Rows are folded by the words of ``merge_reference``. The model does not know files: it is told which buckets a
compaction has merged, and whether all of a bucket went to the highest level.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from merge_reference import Row, Table

Told = tuple[int, str, tuple[Any, ...]]
"""Key, kind, values."""

KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class Variant:
    """A merge engine and the rows that it is given.

    ``kinds`` are the row kinds of its writes. ``retracts_live``: only keys that are there are retracted.
    ``dies_once``: a key that was deleted gets no more rows, because folding -D and a later row forgets the -D.
    """

    table: Table
    kinds: tuple[int, ...] = (0, 2)
    never_null: frozenset[str] = frozenset()
    retracts_live: bool = False
    dies_once: bool = False


@dataclass
class Model:
    """The table; ``producer`` and ``deduplicates`` are those of the changelog, ``hides_new`` says that readers see rows
    only once they are compacted."""

    variant: Variant
    producer: str
    deduplicates: bool
    hides_new: bool
    rows: dict[int, list[Row]] = field(default_factory=dict)
    seen: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    top: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    touched_top: set[int] = field(default_factory=set)
    written: int = 0

    def accepts(self, key: int, kind: int) -> bool:
        """Returns whether the model supports this row now."""
        if "ignore-delete" in self.variant.table.flags:
            return True
        if self.variant.dies_once and any(row.kind == 3 for row in self.rows.get(key, ())):
            return False
        return kind in (0, 2) or not self.variant.retracts_live or self.live(key) is not None

    def write(self, key: int, kind: int, values: dict[str, Any]) -> None:
        """Adds a row."""
        self.written += 1
        if kind in (0, 2) or "ignore-delete" not in self.variant.table.flags:
            self.rows.setdefault(key, []).append(Row(self.written, kind, values))

    def flushed(self) -> list[Told]:
        """The changes since the last call by key, as in the changelog, or without one in the new files."""
        out: list[Told] = []
        for key in sorted(self.rows):
            new = [row for row in self.rows[key] if row.number > self._flushed]
            if not new:
                continue
            self.touched.add(key)
            self.touched_top.add(key)
            folded = self.variant.table.fold(new)
            if self.producer == "input":
                out += [_told(key, row) for row in sorted(new, key=self.variant.table.age)]
            elif self.producer == "none" and folded is not None:
                out.append(_told(key, folded))
        self._flushed = self.written
        return out

    _flushed: int = 0

    def compacted(self, keys: Collection[int], to_the_top: bool) -> list[Told]:
        """The changelog of a compaction of the bucket with these keys."""
        out: list[Told] = []
        if self.producer == "lookup":
            out = self._differences(self.seen, self.touched & set(keys))
        elif self.producer == "full-compaction" and to_the_top:
            out = self._differences(self.top, self.touched_top & set(keys))
        self._note(self.seen, keys)
        self.touched -= set(keys)
        if to_the_top:
            self._note(self.top, keys)
            self.touched_top -= set(keys)
        return out

    def live(self, key: int) -> tuple[Any, ...] | None:
        """The values of a key; None if it does not exist."""
        rows = self.rows.get(key)
        folded = self.variant.table.fold(rows) if rows else None
        return None if folded is None or folded.is_retract else tuple(folded.values.values())

    def state(self) -> dict[int, tuple[Any, ...]]:
        """The rows of a batch read."""
        if self.hides_new:
            return dict(self.seen)
        return {key: values for key in self.rows if (values := self.live(key)) is not None}

    def _differences(self, before: dict[int, tuple[Any, ...]], keys: Iterable[int]) -> list[Told]:
        out: list[Told] = []
        for key in sorted(keys):
            old, new = before.get(key), self.live(key)
            if old is None and new is not None:
                out.append((key, "+I", new))
            elif old is not None and new is None:
                out.append((key, "-D", old))
            elif old is not None and new is not None and not self._is_untold(old, new):
                out += [(key, "-U", old), (key, "+U", new)]
        return out

    def _is_untold(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
        return self.variant.table.engine == "first-row" or (self.deduplicates and old == new)

    def _note(self, state: dict[int, tuple[Any, ...]], keys: Iterable[int]) -> None:
        for key in keys:
            state.pop(key, None)
            values = self.live(key)
            if values is not None:
                state[key] = values


def _told(key: int, row: Row) -> Told:
    return key, KINDS[row.kind], tuple(row.values.values())


def replayed(changes: Iterable[Told]) -> dict[int, tuple[Any, ...]]:
    """The state that a reader of a changelog has; asserts that it adds up: nothing taken back that is not there."""
    state: dict[int, tuple[Any, ...]] = {}
    for key, kind, values in changes:
        if kind in ("-U", "-D"):
            assert state.pop(key, None) == values, f"{kind} {key} {values} is not what was told before"
        else:
            assert key not in state, f"{kind} {key} {values} though the key is there"
            state[key] = values
    return state
