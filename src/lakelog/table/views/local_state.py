"""The local state of a view in DuckDB: the rows of its sources and its own, on local disk.

A refresh applies the changes of the sources, computes the rows of the view that they touch, and compares these with the
rows that the view has. What differs is what the view's table gets. All of it is one transaction, which the caller
commits after the table has the changes. The state is a copy: it can be filled again from the sources at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidRequest, NotInstalled, UnsupportedFeature
from lakelog.io.scratch import ScratchDirectory
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.table.views.local_functions import MACROS
from lakelog.table.views.local_plan import (
    ADDED,
    BRANCH,
    KEY_ALIAS,
    REMOVED,
    TOUCHED,
    LocalPlan,
    changed_table,
    source_table,
)

_BATCH_ROWS: Final = 65_536
_PART_ROWS: Final = 100_000
_PART_BYTES: Final = 64 << 20
"""Limits of the rows that DuckDB gets at a time."""
_SETTINGS: Final = {
    "threads": "2",
    "memory_limit": "1GB",
    # the text of a query comes from the metadata of a table
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_INTERRUPTED: Final = "Query interrupted"
"""What DuckDB raises in place of the exception of a signal handler, which Ctrl-C and the end of a service are."""
_VIEW: Final = "view_rows"
_RESULT: Final = "result_rows"
_CHANGES: Final = "view_changes"
_OLD: Final = "lakelog_old"
_NEW: Final = "lakelog_new"
"""Aliases of relations. No column has such a name: DuckDB would take ``v.id`` as a field of a struct ``v``."""

_PLACE: Final = "rowid"
"""DuckDB's name for the place of a row."""

Rows = Iterable[pa.RecordBatch]


def quoted(name: str) -> str:
    """A name in the SQL of DuckDB."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


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


class LocalState:
    """The state of one view; not for several threads. ``view`` and ``sources`` are the Arrow schemas of the rows.

    Raises NotInstalled without DuckDB.
    """

    def __init__(self, plan: LocalPlan, view: pa.Schema, sources: Sequence[pa.Schema], root: str) -> None:
        self._plan, self._schema, self._sources = plan, view, tuple(sources)
        self._scratch = ScratchDirectory(root, "lakelog-view-")
        settings = {**_SETTINGS, "temp_directory": f"{self._scratch.path}/spill"}
        self._db = _engine().connect(f"{self._scratch.path}/state.db", config=settings)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            _prepare(self._db, plan.zone)
            self._execute("SET lock_configuration = true")
            for at, schema in enumerate(self._sources):
                self._create(source_table(at), schema)
                for side in (REMOVED, ADDED):
                    self._create(changed_table(at, side), schema)
            self._create(_VIEW, view)
            self._kinds = {name: kind for name, kind, *_ in self._execute(f"DESCRIBE {_VIEW}").fetchall()}
            undo.pop_all()

    def fill(self, sources: Sequence[Rows], rows: Rows) -> None:
        """Replaces the state by the rows of the sources (their columns of the plan) and the rows of the view."""
        with self._transaction():
            for at, batches in enumerate(sources):
                self._execute(f"DELETE FROM {source_table(at)}")
                self._insert(source_table(at), batches, self._sources[at])
            self._execute(f"DELETE FROM {_VIEW}")
            self._insert(_VIEW, rows, self._schema)

    @contextlib.contextmanager
    def changed(self, changes: Mapping[int, Rows], everything: bool) -> Iterator[Iterator[pa.RecordBatch]]:
        """Applies the changes of sources, rows with ``_row_kind``; provides the changes of the view.

        With ``everything`` all rows of the view are computed again. The state keeps the changes if the block ends
        without an error. Raises InvalidRequest if the query fails, or returns two rows with one key.
        """
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
            select = self._plan.query if is_whole else self._plan.restricted
            with contextlib.closing(self._compare(f"({select})", is_whole)) as result:
                yield result
            self._adopt()

    @contextlib.contextmanager
    def computed(self, rows: Rows) -> Iterator[Iterator[pa.RecordBatch]]:
        """Like ``changed``, with all rows of the view as another engine has computed them."""
        columns = pa.schema([self._schema.field(name) for name in self._plan.columns])
        with self._transaction():
            self._create("computed_rows", columns, temporary=True)
            self._insert("computed_rows", rows, columns)
            with contextlib.closing(self._compare("computed_rows", True)) as result:
                yield result
            self._adopt()

    def close(self) -> None:
        """Removes the state."""
        self._db.close()
        self._scratch.close()

    def _take(self, at: int, batches: Rows) -> None:
        """Keeps the changed rows of a source by side, without those that both sides have."""
        columns = ", ".join(quoted(name) for name in self._sources[at].names)
        schema = pa.schema([*self._sources[at], pa.field(ROW_KIND_COLUMN, pa.string())])
        self._create("given_changes", schema, temporary=True)
        self._insert("given_changes", batches, schema)
        rows = f"SELECT {columns} FROM given_changes WHERE {ROW_KIND_COLUMN}"
        old, new = f"{rows} IN ('-U', '-D')", f"{rows} NOT IN ('-U', '-D')"
        for side, rows_here, others in ((REMOVED, old, new), (ADDED, new, old)):
            table = changed_table(at, side)
            self._execute(f"DELETE FROM {table}")
            self._execute(f"INSERT INTO {table} {rows_here} EXCEPT ALL {others}")

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
            f"{_NEW}.{c} IS NOT DISTINCT FROM {_OLD}.{quoted(n)}" for c, n in zip(taken, columns, strict=True)
        )
        equal = ", ".join(f"{_OLD}.{quoted(name)}" for name in columns)
        self._execute(
            f"DELETE FROM {table} WHERE {_PLACE} IN (SELECT place FROM (SELECT {_OLD}.{_PLACE} AS place, {_NEW}.times, "
            f"row_number() OVER (PARTITION BY {equal}) AS number FROM {table} {_OLD} JOIN (SELECT {names}, count(*) "
            f"FROM {removed} GROUP BY {names}) {_NEW}({', '.join(taken)}, times) ON {same}) WHERE number <= times)"
        )

    def _compare(self, relation: str, is_whole: bool) -> Generator[pa.RecordBatch]:
        """The changes from the rows of the view to those of a relation, in Arrow batches with ``_row_kind``."""
        plan = self._plan
        columns = ", ".join(quoted(name) for name in plan.columns)
        names = f"{_RESULT}({columns}{f', {BRANCH}' if plan.of_branch else ''})"  # by place: DuckDB's ä is not its Ä
        parts = (BRANCH, *plan.key) if plan.of_branch else plan.key
        key = f", {row_key(parts, {**self._kinds, BRANCH: 'INTEGER'})}" if plan.has_row_key else ""
        self._execute(f"CREATE OR REPLACE TEMP TABLE {_RESULT} AS SELECT * FROM {_VIEW} LIMIT 0")
        self._execute(f"INSERT INTO {_RESULT} SELECT {columns}{key} FROM {relation} {names}")
        self._check_keys()
        same = " AND ".join(f"{_NEW}.{quoted(k)} = {_OLD}.{quoted(k)}" for k in plan.table_key)
        differs = " OR ".join(f"{_NEW}.{quoted(c)} IS DISTINCT FROM {_OLD}.{quoted(c)}" for c in plan.columns)
        is_touched = " AND ".join(f"{KEY_ALIAS}.{quoted(k)} IS NOT DISTINCT FROM {_OLD}.{quoted(k)}" for k in plan.key)
        scope = "" if is_whole else f"AND EXISTS (SELECT 1 FROM {TOUCHED} {KEY_ALIAS} WHERE {is_touched})"
        old, new, is_new = f"{_VIEW} {_OLD}", f"{_RESULT} {_NEW}", f"{_OLD}.{quoted(plan.table_key[0])} IS NULL"
        kind = f"AS {ROW_KIND_COLUMN}"
        self._execute(
            f"CREATE OR REPLACE TEMP TABLE {_CHANGES} AS "
            f"SELECT {_OLD}.*, '-D' {kind} FROM {old} WHERE NOT EXISTS (SELECT 1 FROM {new} WHERE {same}) {scope} "
            f"UNION ALL SELECT {_OLD}.*, '-U' {kind} FROM {old} JOIN {new} ON {same} WHERE {differs} "
            f"UNION ALL SELECT {_NEW}.*, CASE WHEN {is_new} THEN '+I' ELSE '+U' END {kind} "
            f"FROM {new} LEFT JOIN {old} ON {same} WHERE {is_new} OR {differs}"
        )
        with self._db.sql(f"SELECT * FROM {_CHANGES}").to_arrow_reader(_BATCH_ROWS) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield batch

    def _check_keys(self) -> None:
        names = ", ".join(quoted(k) for k in self._plan.table_key)
        twice = self._execute(f"SELECT {names} FROM {_RESULT} GROUP BY ALL HAVING count(*) > 1 LIMIT 1").fetchone()
        if twice is not None:
            shown = ", ".join(f"{k} = {value}" for k, value in zip(self._plan.table_key, twice, strict=True))
            raise InvalidRequest(f"the query of the view returns two rows with the key {shown}: its key must be unique")

    def _adopt(self) -> None:
        """Applies the changes of the view to its rows here."""
        same = " AND ".join(f"{_NEW}.{quoted(k)} = {_OLD}.{quoted(k)}" for k in self._plan.table_key)
        names = ", ".join(quoted(name) for name in self._plan.table_columns)
        self._execute(f"DELETE FROM {_VIEW} {_OLD} USING {_CHANGES} {_NEW} WHERE {same}")
        self._execute(f"INSERT INTO {_VIEW} SELECT {names} FROM {_CHANGES} WHERE {ROW_KIND_COLUMN} IN ('+I', '+U')")

    def _create(self, name: str, schema: pa.Schema, temporary: bool = False) -> None:
        self._db.register("empty_rows", schema.empty_table())
        kind = "TEMP TABLE" if temporary else "TABLE"
        self._execute(f"CREATE OR REPLACE {kind} {name} AS SELECT * FROM empty_rows")
        self._db.unregister("empty_rows")

    def _insert(self, name: str, batches: Rows, schema: pa.Schema) -> None:
        """Adds rows, which are read in this thread: a thread of DuckDB would open clients of its own."""
        for rows in _parts(batches, schema):
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

    def _execute(self, statement: str) -> Any:
        try:
            return self._db.execute(statement)
        except RuntimeError as stopped:
            if str(stopped) != _INTERRUPTED:
                raise
            raise KeyboardInterrupt from stopped
        except _engine().Error as failed:
            said = str(failed).partition("\n")[0]
            raise InvalidRequest(f"the rows of the view cannot be computed: {said}") from failed


def _parts(batches: Rows, schema: pa.Schema) -> Iterator[pa.Table]:
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


def _engine() -> Any:
    """The module of DuckDB. Raises NotInstalled."""
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise NotInstalled("materialized views need DuckDB: pip install 'lakelog[views]'") from missing
    return duckdb


def _prepare(db: Any, zone: str) -> None:
    """Sets the time zone of the view and makes the macros. Raises InvalidRequest for one that DuckDB does not know."""
    escaped = zone.replace("'", "''")
    try:
        db.execute(f"SET TimeZone = '{escaped}'")
    except _engine().Error as unknown:
        raise InvalidRequest(
            f"time zone '{zone}' of the view is not known to DuckDB: create the view in a session whose time zone has "
            "a name, such as UTC or Europe/Paris"
        ) from unknown
    for macro in MACROS:
        db.execute(macro)


class EmptySources:
    """Tables ``source_0``, … without rows in memory, to ask for the columns of a query."""

    def __init__(self, sources: Sequence[pa.Schema], zone: str) -> None:
        self._db = _engine().connect(":memory:", config=_SETTINGS)
        _prepare(self._db, zone)
        for at, schema in enumerate(sources):
            self._db.register("empty_rows", schema.empty_table())
            self._db.execute(f"CREATE TABLE {source_table(at)} AS SELECT * FROM empty_rows")

    def schema_of(self, query: str) -> pa.Schema:
        """The columns of a query. Raises UnsupportedFeature if DuckDB refuses it."""
        try:
            return self._db.sql(query).to_arrow_table().schema
        except _engine().Error as refused:
            said = str(refused).partition("\n")[0]
            raise UnsupportedFeature(f"DuckDB cannot run the query: {said}") from refused


def machine_zone() -> str:
    """The name of the time zone of this machine. Raises NotInstalled without DuckDB."""
    return str(_engine().connect(":memory:").execute("SELECT current_setting('TimeZone')").fetchone()[0])
