"""The local state of a view as the rows of its sources and its own; changes choose the rows to compute again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakelog.state.embedded_sql import quoted
from lakelog.table.views.local_plan import ADDED, KEY_ALIAS, REMOVED, TOUCHED, changed_table, source_table
from lakelog.table.views.local_state import NEW, OLD, RESULT_ROWS, VIEW_ROWS, LocalState, Rows

_PLACE: Final = "rowid"
"""DuckDB's name for the place of a row."""
_COMPUTED: Final = "computed_rows"


class RowState(LocalState):
    """The rows of the sources and of the view: for every query, and for views that Spark computes."""

    def _prepare(self) -> None:
        for at, schema in enumerate(self._sources):
            self._create(source_table(at), schema)

    def fill(self, sources: Sequence[Rows], rows: Rows | None) -> None:
        with self._transaction():
            for at, batches in enumerate(sources):
                self._execute(f"DELETE FROM {source_table(at)}")
                self._insert(source_table(at), batches, self._sources[at])
            self._execute(f"DELETE FROM {VIEW_ROWS}")
            self._insert(VIEW_ROWS, rows or (), self._schema)

    @contextlib.contextmanager
    def changed(self, changes: Mapping[int, Rows], everything: bool) -> Iterator[Iterator[pa.RecordBatch]]:
        with self._transaction():
            for at, batches in changes.items():
                self._take(at, batches)
            is_whole = everything or self._plan.restricted is None
            touched = [] if is_whole else [t for t in self._plan.touched if t.source in changes]
            self._collect_keys([t.query for t in touched if t.side == REMOVED])
            for at in changes:
                self._apply(at)
            for query in (t.query for t in touched if t.side == ADDED):
                self._execute(f"INSERT INTO {TOUCHED} {query}")
            self._put(RESULT_ROWS, (self._plan.query if is_whole else self._plan.restricted) or "")
            with contextlib.closing(self._compare(VIEW_ROWS, "" if is_whole else self._scope)) as result:
                yield result
            self._adopt()

    @contextlib.contextmanager
    def computed(self, rows: Rows) -> Iterator[Iterator[pa.RecordBatch]]:
        """Like ``changed``, with all rows of the view as another engine has computed them."""
        columns = pa.schema([self._schema.field(name) for name in self._plan.columns])
        with self._transaction():
            self._create(_COMPUTED, columns, temporary=True)
            self._insert(_COMPUTED, rows, columns)
            self._put(RESULT_ROWS, f"FROM {_COMPUTED}")
            with contextlib.closing(self._compare(VIEW_ROWS)) as result:
                yield result
            self._adopt()

    @property
    def _scope(self) -> str:
        """The condition of the touched rows of the view."""
        same = " AND ".join(f"{KEY_ALIAS}.{quoted(k)} IS NOT DISTINCT FROM {OLD}.{quoted(k)}" for k in self._plan.key)
        return f"AND EXISTS (SELECT 1 FROM {TOUCHED} {KEY_ALIAS} WHERE {same})"

    def _collect_keys(self, queries: Sequence[str]) -> None:
        """Creates the table of the touched keys of the view, with the rows of some queries."""
        kinds = ", ".join(f"{quoted(name)} {self._kinds[name]}" for name in self._plan.key)
        self._execute(f"CREATE OR REPLACE TEMP TABLE {TOUCHED} ({kinds or 'nothing INTEGER'})")
        for query in queries:
            self._execute(f"INSERT INTO {TOUCHED} {query}")

    def _apply(self, at: int) -> None:
        """Applies the kept changes of a source to its rows."""
        table, removed = source_table(at), changed_table(at, REMOVED)
        key, add = self._plan.sources[at].key, f"INSERT INTO {table} SELECT * FROM {changed_table(at, ADDED)}"
        if key:
            same = " AND ".join(f"{table}.{quoted(k)} = {removed}.{quoted(k)}" for k in key)
            self._execute(f"DELETE FROM {table} USING {removed} WHERE {same}")
        else:
            self._remove_once(table, removed, self._sources[at].names)
        self._execute(add)

    def _remove_once(self, table: str, removed: str, columns: Sequence[str]) -> None:
        """Removes each row as often as it was removed from a source without a key."""
        if any(name.lower() == _PLACE for name in columns):  # the column hides the place of a row
            self._execute(f"CREATE OR REPLACE TEMP TABLE kept_rows AS FROM {table} EXCEPT ALL FROM {removed}")
            self._execute(f"DELETE FROM {table}")
            self._execute(f"INSERT INTO {table} FROM kept_rows")
            return
        names = ", ".join(quoted(name) for name in columns)
        taken = [f"c{at}" for at in range(len(columns))]  # a column of the source may be called as the number of rows
        same = " AND ".join(
            f"{NEW}.{c} IS NOT DISTINCT FROM {OLD}.{quoted(n)}" for c, n in zip(taken, columns, strict=True)
        )
        equal = ", ".join(f"{OLD}.{quoted(name)}" for name in columns)
        self._execute(
            f"DELETE FROM {table} WHERE {_PLACE} IN (SELECT place FROM (SELECT {OLD}.{_PLACE} AS place, {NEW}.times, "
            f"row_number() OVER (PARTITION BY {equal}) AS number FROM {table} {OLD} JOIN (SELECT {names}, count(*) "
            f"FROM {removed} GROUP BY {names}) {NEW}({', '.join(taken)}, times) ON {same}) WHERE number <= times)"
        )
