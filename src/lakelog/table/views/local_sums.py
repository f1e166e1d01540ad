"""The local state of a view that follows from the changed rows of its source: sums by group, or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakelog.state.embedded_sql import quoted
from lakelog.table.views.local_plan import ADDED, REMOVED, ROW_COUNT, SUMS, ByChanges, changed_table
from lakelog.table.views.local_state import NEW, OLD, RESULT_ROWS, VIEW_ROWS, LocalState, Rows, parts_of

_BEFORE: Final = "rows_before"
_CHANGED: Final = "changed_sums"
_OLD_SUMS: Final = "old_sums"
_NEW_SUMS: Final = "new_sums"


class SumState(LocalState):
    """The counts and sums of the groups of a view: added rows are added to them, removed ones are taken from them.

    A view without groups has none: the removed and added rows of its source make its old and its new rows.
    """

    def _prepare(self) -> None:
        if self._by.rows is not None:
            self._execute(f"CREATE TABLE {SUMS} AS SELECT * FROM ({self._by.added}) LIMIT 0")

    @property
    def _by(self) -> ByChanges:
        assert self._plan.by_changes is not None
        return self._plan.by_changes

    def fill(self, sources: Sequence[Rows], rows: Rows | None) -> None:
        with self._transaction():
            self._execute(f"DELETE FROM {VIEW_ROWS}")
            self._insert(VIEW_ROWS, rows or (), self._schema)
            self._put(RESULT_ROWS, f"SELECT {', '.join(map(quoted, self._plan.columns))} FROM {VIEW_ROWS} LIMIT 0")
            if self._by.rows is not None:
                self._execute(f"DELETE FROM {SUMS}")
                if not self._by.keys:  # the one row of no rows
                    self._execute(f"INSERT INTO {SUMS} SELECT {', '.join('0' for _ in self._by.sums)}")
            elif rows is None:
                return
            self._execute(f"DELETE FROM {changed_table(0, REMOVED)}")
            for part in parts_of(sources[0], self._sources[0]):
                self._execute(f"DELETE FROM {changed_table(0, ADDED)}")
                self._insert(changed_table(0, ADDED), part.to_batches(), self._sources[0])
                if self._by.rows is None:
                    self._add(RESULT_ROWS, self._by.added)
                else:
                    self._sum_changes()
                    self._keep_sums()

    @contextlib.contextmanager
    def changed(self, changes: Mapping[int, Rows], everything: bool) -> Iterator[Iterator[pa.RecordBatch]]:
        by = self._by
        with self._transaction():
            for at, batches in changes.items():
                self._take(at, batches)
            if everything:
                if by.rows is not None:
                    self._put(RESULT_ROWS, by.rows)
            elif by.rows is None:
                self._put(_BEFORE, by.removed)
                self._put(RESULT_ROWS, by.added)
            else:
                self._sum_changes()
                self._put(_BEFORE, f"WITH {SUMS} AS (FROM {_OLD_SUMS}) {by.rows}")
                self._put(RESULT_ROWS, f"WITH {SUMS} AS (FROM {_NEW_SUMS}) {by.rows}")
            with contextlib.closing(self._compare(VIEW_ROWS if everything else _BEFORE)) as result:
                yield result
            if everything:
                self._execute(f"DELETE FROM {VIEW_ROWS}")
            elif by.rows is not None:
                self._keep_sums()

    def _sum_changes(self) -> None:
        """Makes tables of the sums of the changed rows, and of the old and the new sums of their groups."""
        by, keys = self._by, "".join(f"{quoted(k)}, " for k in self._by.keys)
        group = f"GROUP BY {keys.removesuffix(', ')}" if keys else ""
        sums = ", ".join(f"coalesce(sum({s}), 0) AS {s}" for s in map(quoted, by.sums))
        taken = ", ".join(f"-{quoted(s)}" for s in by.sums)
        for table in (_CHANGED, _OLD_SUMS, _NEW_SUMS):
            self._execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {SUMS} LIMIT 0")
        self._execute(
            f"INSERT INTO {_CHANGED} SELECT {keys}{sums} FROM (({by.added}) UNION ALL "
            f"(SELECT {keys}{taken} FROM ({by.removed}))) {group}"
        )
        exists = f"WHERE EXISTS (SELECT 1 FROM {_CHANGED} {NEW} WHERE {self._same})" if keys else ""
        self._execute(f"INSERT INTO {_OLD_SUMS} SELECT * FROM {SUMS} {OLD} {exists}")
        kept = f"HAVING sum({quoted(ROW_COUNT)}) > 0" if keys else ""
        self._execute(
            f"INSERT INTO {_NEW_SUMS} SELECT {keys}{sums} FROM (FROM {_OLD_SUMS} UNION ALL FROM {_CHANGED}) "
            f"{group} {kept}"
        )

    def _keep_sums(self) -> None:
        """Puts the new sums in place of the old ones."""
        where = f"USING {_CHANGED} {NEW} WHERE {self._same}" if self._by.keys else ""
        self._execute(f"DELETE FROM {SUMS} {OLD} {where}")
        self._execute(f"INSERT INTO {SUMS} FROM {_NEW_SUMS}")

    @property
    def _same(self) -> str:
        """The condition that two groups are one."""
        return " AND ".join(f"{NEW}.{quoted(k)} IS NOT DISTINCT FROM {OLD}.{quoted(k)}" for k in self._by.keys)
