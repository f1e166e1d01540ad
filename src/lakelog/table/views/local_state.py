"""The local state of a view in DuckDB, on local disk: what its refreshes need of its sources and its own rows.

A refresh applies the changes of the sources, computes rows of the view again, and compares them with those that the
view has. What differs is what the view's table gets. All of it is one transaction, which the caller commits after the
table has the changes. The state is derived: it can be filled again from the sources at any time.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.io.scratch import ScratchDirectory
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.state.embedded_sql import CLOSED, INTERRUPTED, SETTINGS, duckdb_module, prepare, quoted
from lakelog.state.spark_functions import failure_of
from lakelog.table.views.local_plan import (
    ADDED,
    BRANCH,
    REMOVED,
    LocalPlan,
    changed_table,
    source_table,
)

_BATCH_ROWS: Final = 65_536
_PART_ROWS: Final = 100_000
_PART_BYTES: Final = 64 << 20
"""Limits of the rows that DuckDB gets at a time."""
VIEW_ROWS: Final = "view_rows"
"""The table of the rows that the view has."""
RESULT_ROWS: Final = "result_rows"
"""The table of the rows of the view as they are computed again."""
_CHANGES: Final = "view_changes"
OLD: Final = "lakelog_old"
NEW: Final = "lakelog_new"
"""Aliases of relations. No column has such a name: DuckDB would take ``v.id`` as a field of a struct ``v``."""
_CHECKPOINT_ROWS: Final = 500_000
"""Number of changed rows after which the file is written anew where rows were deleted."""

Rows = Iterable[pa.RecordBatch]


def row_key(columns: Sequence[str], kinds: Mapping[str, str]) -> str:
    """The expression of ``ROW_KEY``: a JSON array of the values as texts; NULL is null.

    ``kinds`` are DuckDB's types of the columns. Equal values have equal texts: -0.0 is 0.0, and an instant has the
    number of its microseconds, which does not depend on a time zone.
    """
    texts = " || ',' || ".join(_key_text(quoted(column), kinds[column].upper()) for column in columns)
    return f"'[' || {texts} || ']'" if texts else "'[]'"


def _key_text(value: str, kind: str) -> str:
    if kind in ("FLOAT", "DOUBLE"):
        value = f"({value} + 0)"
    elif kind == "TIMESTAMP WITH TIME ZONE":
        value = f"epoch_us({value})"
    return f"coalesce(CAST(to_json(CAST({value} AS VARCHAR)) AS VARCHAR), 'null')"


class LocalState(ABC):
    """The state of one view; not for several threads. ``view`` and ``sources`` are the Arrow schemas of the rows.

    Raises NotInstalled without DuckDB.
    """

    def __init__(self, plan: LocalPlan, view: pa.Schema, sources: Sequence[pa.Schema], root: str) -> None:
        self._plan, self._schema, self._sources = plan, view, tuple(sources)
        self._scratch = ScratchDirectory(root, "lakelog-view-")
        self._changed_rows = 0
        settings = {**SETTINGS, "temp_directory": f"{self._scratch.path}/spill"}
        self._db = duckdb_module().connect(":memory:", config=settings)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            path = f"{self._scratch.path}/state.db".replace("'", "''")
            # the file ends with this object: nothing would read a log of it
            self._execute(f"ATTACH '{path}' AS state (RECOVERY_MODE no_wal_writes)")
            self._execute("USE state")
            self._execute(CLOSED)
            prepare(self._db, plan.zone)
            self._execute("SET lock_configuration = true")
            for at, schema in enumerate(self._sources):
                for side in (REMOVED, ADDED):
                    self._create(changed_table(at, side), schema, temporary=True)
            self._create(VIEW_ROWS, view)
            self._kinds = {name: kind for name, kind, *_ in self._execute(f"DESCRIBE {VIEW_ROWS}").fetchall()}
            self._prepare()
            undo.pop_all()

    @abstractmethod
    def _prepare(self) -> None:
        """Creates the tables of this kind of state."""

    @abstractmethod
    def fill(self, sources: Sequence[Rows], rows: Rows | None) -> None:
        """Replaces the state by that for the rows of the sources (their columns of the plan).

        ``rows`` are those that the view has. A plan by changes needs them only to compute everything; else None.
        """

    @abstractmethod
    def changed(
        self, changes: Mapping[int, Rows], everything: bool
    ) -> contextlib.AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Applies the changes of sources, rows with ``_row_kind``; provides the changes of the view.

        With ``everything`` all rows of the view are computed again. The state keeps the changes if the block ends
        without an error. Raises InvalidRequest if the query fails, or returns two rows with one key.
        """

    def close(self) -> None:
        """Removes the state."""
        self._db.close()
        self._scratch.close()

    def _take(self, at: int, batches: Rows) -> None:
        """Keeps the changed rows of a source by side, without those that both sides have.

        The changes of a source with a key are those between two states: no side has a row of the other.
        """
        columns, schema = [quoted(name) for name in self._sources[at].names], self._sources[at]
        tables = changed_table(at, REMOVED), changed_table(at, ADDED)
        for table in tables:
            self._execute(f"DELETE FROM {table}")
        marked = pa.schema([*schema, pa.field(ROW_KIND_COLUMN, pa.string())])
        for rows in parts_of(batches, marked):
            is_old = pc.is_in(rows.column(ROW_KIND_COLUMN), pa.array(["-U", "-D"]))
            for table, mask in zip(tables, (is_old, pc.invert(is_old)), strict=True):
                self._insert(table, rows.filter(mask).select(schema.names).to_batches(), schema)
            self._changed_rows += rows.num_rows
        if not self._plan.sources[at].key:
            names = ", ".join(columns)
            for table, other in (tables, tables[::-1]):
                self._execute(f"CREATE OR REPLACE TEMP TABLE net_{table} AS SELECT {names} FROM {table} "
                              f"EXCEPT ALL SELECT {names} FROM {other}")  # fmt: skip
            for table in tables:
                self._execute(f"DELETE FROM {table}")
                self._execute(f"INSERT INTO {table} FROM net_{table}")

    def _put(self, table: str, relation: str) -> None:
        """Creates a table with the rows of the view that a query returns, with their keys."""
        self._execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {VIEW_ROWS} LIMIT 0")
        self._add(table, relation)

    def _add(self, table: str, relation: str) -> None:
        plan = self._plan
        columns = ", ".join(quoted(name) for name in plan.columns)
        # by place: DuckDB's ä is not its Ä
        names = f"rows_of_query({columns}{f', {BRANCH}' if plan.of_branch else ''})"
        parts = (BRANCH, *plan.key) if plan.of_branch else plan.key
        key = f", {row_key(parts, {**self._kinds, BRANCH: 'INTEGER'})}" if plan.has_row_key else ""
        self._execute(f"INSERT INTO {table} SELECT {columns}{key} FROM ({relation}) {names}")

    def _compare(self, before: str, scope: str = "") -> Generator[pa.RecordBatch]:
        """The changes from the rows of a table, those in ``scope``, to ``RESULT_ROWS``: batches with ``_row_kind``."""
        plan = self._plan
        self._check_keys()
        same = " AND ".join(f"{NEW}.{quoted(k)} = {OLD}.{quoted(k)}" for k in plan.table_key)
        differs = " OR ".join(f"{NEW}.{quoted(c)} IS DISTINCT FROM {OLD}.{quoted(c)}" for c in plan.columns)
        old, new, is_new = f"{before} {OLD}", f"{RESULT_ROWS} {NEW}", f"{OLD}.{quoted(plan.table_key[0])} IS NULL"
        kind = f"AS {ROW_KIND_COLUMN}"
        self._execute(
            f"CREATE OR REPLACE TEMP TABLE {_CHANGES} AS "
            f"SELECT {OLD}.*, '-D' {kind} FROM {old} WHERE NOT EXISTS (SELECT 1 FROM {new} WHERE {same}) {scope} "
            f"UNION ALL SELECT {OLD}.*, '-U' {kind} FROM {old} JOIN {new} ON {same} WHERE {differs} "
            f"UNION ALL SELECT {NEW}.*, CASE WHEN {is_new} THEN '+I' ELSE '+U' END {kind} "
            f"FROM {new} LEFT JOIN {old} ON {same} WHERE {is_new} OR {differs}"
        )
        with self._db.sql(f"SELECT * FROM {_CHANGES}").to_arrow_reader(_BATCH_ROWS) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield batch

    def _check_keys(self) -> None:
        names = ", ".join(quoted(k) for k in self._plan.table_key)
        twice = self._execute(f"SELECT {names} FROM {RESULT_ROWS} GROUP BY ALL HAVING count(*) > 1 LIMIT 1").fetchone()
        if twice is not None:
            shown = ", ".join(f"{k} = {value}" for k, value in zip(self._plan.table_key, twice, strict=True))
            raise InvalidRequest(f"the query of the view returns two rows with the key {shown}: its key must be unique")

    def _adopt(self) -> None:
        """Applies the changes of the view to its rows here."""
        same = " AND ".join(f"{NEW}.{quoted(k)} = {OLD}.{quoted(k)}" for k in self._plan.table_key)
        names = ", ".join(quoted(name) for name in self._plan.table_columns)
        self._execute(f"DELETE FROM {VIEW_ROWS} {OLD} USING {_CHANGES} {NEW} WHERE {same}")
        self._execute(f"INSERT INTO {VIEW_ROWS} SELECT {names} FROM {_CHANGES} WHERE {ROW_KIND_COLUMN} IN ('+I', '+U')")

    def _create(self, name: str, schema: pa.Schema, temporary: bool = False) -> None:
        self._db.register("empty_rows", schema.empty_table())
        kind = "TEMP TABLE" if temporary else "TABLE"
        self._execute(f"CREATE OR REPLACE {kind} {name} AS SELECT * FROM empty_rows")
        self._db.unregister("empty_rows")

    def _insert(self, name: str, batches: Rows, schema: pa.Schema) -> None:
        """Adds rows, which are read in this thread: a thread of DuckDB would open clients of its own."""
        for rows in parts_of(batches, schema):
            self._db.register("given_rows", rows)
            try:
                self._execute(f"INSERT INTO {name} SELECT * FROM given_rows")
            finally:
                self._db.unregister("given_rows")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN")
        try:
            yield
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")
        if self._changed_rows > _CHECKPOINT_ROWS:  # what was deleted takes space until then
            self._execute("CHECKPOINT")
            self._changed_rows = 0

    def _execute(self, statement: str) -> Any:
        try:
            return self._db.execute(statement)
        except RuntimeError as stopped:
            if str(stopped) != INTERRUPTED:
                raise
            raise KeyboardInterrupt from stopped
        except duckdb_module().Error as failed:
            raise failure_of("the rows of the view cannot be computed", failed) from failed


def parts_of(batches: Rows, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in tables of bounded size."""
    waiting: list[pa.RecordBatch] = []
    row_count = size = 0
    for batch in batches:
        waiting.append(batch.select(schema.names).cast(schema))
        row_count, size = row_count + batch.num_rows, size + waiting[-1].nbytes
        if row_count >= _PART_ROWS or size >= _PART_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, row_count, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


class EmptySources:
    """Tables ``source_0``, … without rows in memory, to ask for the columns of a query."""

    def __init__(self, sources: Sequence[pa.Schema], zone: str) -> None:
        self._db = duckdb_module().connect(":memory:", config=SETTINGS)
        self._db.execute(CLOSED)
        prepare(self._db, zone)
        for at, schema in enumerate(sources):
            self._db.register("empty_rows", schema.empty_table())
            self._db.execute(f"CREATE TABLE {source_table(at)} AS SELECT * FROM empty_rows")

    def types_of(self, query: str) -> tuple[str, ...]:
        """DuckDB's types of the columns of a query. Raises UnsupportedFeature if DuckDB refuses it."""
        try:
            return tuple(str(row[1]).upper() for row in self._db.execute(f"DESCRIBE {query}").fetchall())
        except duckdb_module().Error as refused:
            said = str(refused).partition("\n")[0]
            raise UnsupportedFeature(f"DuckDB cannot run the query: {said}") from refused

    def schema_of(self, query: str) -> pa.Schema:
        """The columns of a query. Raises UnsupportedFeature if DuckDB refuses it."""
        try:
            return self._db.sql(query).to_arrow_table().schema
        except duckdb_module().Error as refused:
            said = str(refused).partition("\n")[0]
            raise UnsupportedFeature(f"DuckDB cannot run the query: {said}") from refused
