"""EXPLAIN of statements that change rows: ports that record the planned writes without writing.

The statement itself runs on them, so that what is explained is what would be done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from lakelog.catalog.base import Identifier
from lakelog.errors import UnsupportedFeature
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.options.log import EMIT_MODE
from lakelog.options.overwrite import DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.table import MERGE_ENGINE
from lakelog.paimon.rows.display import partition_path
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts, row_counts
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.replaced_rows import check_overwrite

_READS_OF_ENGINE: Final = (
    "check_assignments", "checks_casts", "columns_of", "is_spark_relation", "is_view", "millis_of", "simple_types",
    "view_of", "zone",
)  # fmt: skip
_READS_OF_TABLES: Final = (
    "canonical_options", "changeable", "list_catalogs", "list_databases", "list_tables", "load_schema", "open",
)  # fmt: skip
_MOST_PARTITIONS: Final = 20


@dataclass(frozen=True)
class Write:
    """The planned writes of a statement as text, and the plan of the query that finds the rows, if any."""

    text: str
    plan: QueryPlan | None


class ExplainingSession(SessionContext):
    """A session for one statement, whose writes are noted, not executed.

    ``head`` is the text of EXPLAIN before the statement, which Spark's own tables need; ``verb`` its first word.
    """

    def __init__(self, session: SessionContext, head: str, verb: str) -> None:
        self.__dict__.update(session.__dict__)
        self._session = session
        self._verb = verb
        self.write: Write | None = None
        self.tables = cast(CatalogTables, _Tables(session.tables, self))
        self.engine = cast(Engine, ExplainingEngine(session.engine, self, head))

    def new_view(self) -> str:
        """A new unique view name of the session."""
        return self._session.new_view()

    def opened(self, identifier: Identifier, options: Mapping[str, str]) -> DynamicTable:
        """The table with the options of the write. Raises UnsupportedFeature for a system table."""
        table = self._session.tables.open(identifier).with_hints(options)
        table.check_rows_writable()
        return table

    def note(self, table: DynamicTable, what: str, partitions: str, plan: QueryPlan | None = None) -> None:
        """Records the planned writes."""
        lines = [
            f"{self._verb} of table {table.name}, {_shape(table)}",
            f"  writes: {what if table.emits_files else 'nothing to the files'}",
            f"  partitions: {partitions if table.schema.partition_keys else 'none'}, {_buckets(table)}",
            f"  log: {_log(table)}",
        ]
        self.write = Write("\n".join(lines), plan)


class ExplainingEngine:
    """The engine of an ``ExplainingSession``."""

    def __init__(self, engine: Engine, session: ExplainingSession, head: str) -> None:
        self._engine, self._session, self._head = engine, session, head

    def __getattr__(self, name: str) -> Any:
        if name not in _READS_OF_ENGINE:
            raise AttributeError(name)
        return getattr(self._engine, name)

    def pass_through(self, text: str) -> object:
        """Spark explains a statement about its own table."""
        return self._engine.pass_through(self._head + text)

    def run_query(self, plan: QueryPlan) -> object:
        """Spark explains a statement about its own table, from lakelog's tables."""
        return self._engine.run_query(plan.with_prefix(self._head))

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: Mapping[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
        match: FieldMatch = FieldMatch.POSITION,
    ) -> RowCounts:
        """Notes the rows of a plan; writes none."""
        target = self._session.opened(table, options)
        where = ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in partition.items())
        if overwrite:
            check_overwrite(target)
            what, where = "the rows below, in place of the rows of these partitions", where or _overwritten(target)
            what = what if target.schema.partition_keys else "the rows below, in place of all rows"
            what += ", each with a delete for the log" if target.emits_log else ""
        elif target.schema.is_keyed:
            engine = target.options.need(MERGE_ENGINE)
            what = f"the rows below with their row kinds; reads and compactions merge them by key ({engine})"
        else:
            what = "the rows below, in addition to those of the table"
        self._session.note(target, what, where or "those of the rows", plan)
        return row_counts()

    def files_of(self, table: Identifier, plan: QueryPlan | None, options: Mapping[str, str]) -> Sequence[str]:
        """Notes the files of a table without a key that are replaced; none is read."""
        target = self._session.opened(table, options)
        check_overwrite(target)
        which = "each data file" if plan is None else "each data file that has rows of the read below"
        what = f"new files in place of {which}, with its other rows and the changed ones"
        self._session.note(target, what, "those of the files", plan)
        return [file.file_name for split in Scan(target).plan() for file in split.files] if plan is None else ()

    def replace_files(
        self, table: Identifier, plan: QueryPlan, files: Sequence[str], options: Mapping[str, str]
    ) -> RowCounts:
        """Adds the plan of the rows, if the statement rewrites all files or also adds rows."""
        noted = self._session.write
        if noted is not None and noted.plan is None:
            self._session.write = Write(noted.text, plan)
        return row_counts()


class _Tables:
    def __init__(self, tables: CatalogTables, session: ExplainingSession) -> None:
        self._tables, self._session = tables, session

    def __getattr__(self, name: str) -> Any:
        if name not in _READS_OF_TABLES:
            raise AttributeError(name)
        return getattr(self._tables, name)

    def alter_table(self, identifier: Identifier, changes: Sequence[object]) -> None:
        """Refuses what only the statement itself does."""
        raise UnsupportedFeature(
            f"EXPLAIN adds no columns to table {identifier}: explain the statement without WITH SCHEMA EVOLUTION"
        )

    def delete(self, identifier: Identifier, condition: Predicate | None, options: Mapping[str, str]) -> RowCounts:
        """Notes the whole partitions."""
        target = self._session.opened(identifier, options)
        check_overwrite(target)
        schema = target.schema
        splits = Scan(target, filter=condition).plan()
        names = sorted({partition_path(split.partition, schema, "NULL") for split in splits if schema.partition_keys})
        more = f" and {len(names) - _MOST_PARTITIONS} more" if len(names) > _MOST_PARTITIONS else ""
        which = "all files" if condition is None else "the files of whole partitions"
        what = f"a snapshot without {which} ({sum(len(s.files) for s in splits)}); no row is read"
        self._session.note(target, what, (", ".join(names[:_MOST_PARTITIONS]) or "no partition has such rows") + more)
        return row_counts()


def _shape(table: DynamicTable) -> str:
    schema = table.schema
    key = f"primary key ({', '.join(schema.primary_keys)})" if schema.is_keyed else "no primary key"
    return key + (f", partitioned by ({', '.join(schema.partition_keys)})" if schema.partition_keys else "")


def _buckets(table: DynamicTable) -> str:
    schema = table.schema
    if schema.num_buckets < 1 or not schema.bucket_keys:
        return "buckets: in the order of the rows" if not schema.is_keyed else "buckets: by the key index"
    return f"buckets: {schema.num_buckets} by the hash of ({', '.join(schema.bucket_keys)})"


def _log(table: DynamicTable) -> str:
    log = table.log
    if log is None:
        return "none"
    name = f"{log.system}, topic {log.topic}"
    if table.publishes:
        return f"{name}, receives the changes of the merged table after the commit"
    if not table.emits_log:
        return f"{name}, receives nothing from this write ('{EMIT_MODE.key}', 'change-tracking')"
    return f"{name}, receives the rows as they are written (changes: {table.changelog_mode})"


def _overwritten(table: DynamicTable) -> str:
    if DYNAMIC_PARTITION_OVERWRITE.key not in table.options:
        return "all; with 'spark.sql.sources.partitionOverwriteMode' = 'dynamic' those of the rows"
    return "those of the rows" if table.options.need(DYNAMIC_PARTITION_OVERWRITE) else "all"
