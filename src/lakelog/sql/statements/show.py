"""Statements that show tables, their columns, partitions and history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.catalog.base import DEFAULT_DATABASE, Identifier
from lakelog.errors import InvalidRequest, InvalidSchema, did_you_mean
from lakelog.options.log import shown_value
from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.options.view import VIEW
from lakelog.paimon.rows.display import partition_path
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import RowType
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, TableStatement, matching, text_rows
from lakelog.sql.syntax.clauses import PartitionClause, read_partition
from lakelog.sql.syntax.lexer import quoted_name, quoted_text
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.sql.syntax.type_parser import type_text
from lakelog.table.model.partition_selection import OverwriteTarget, partition_values
from lakelog.table.system import SYSTEM_TABLES
from lakelog.table.system.files import count_files
from lakelog.table.system.history import snapshot_log
from lakelog.table.views.definition import ViewDefinition

_SPARKS_OWN = (
    "FUNCTION", "CATALOG", "QUERY", "PROCEDURE", "SELECT", "WITH", "VALUES", "FROM"
)  # fmt: skip


@dataclass(frozen=True)
class Describe(TableStatement, needs=Privilege.READ):
    """``DESCRIBE|DESC [TABLE] [EXTENDED|FORMATTED] name [column]``."""

    extended: bool
    column: Name | None = None

    @classmethod
    def parse(cls, cursor: TokenStream) -> Describe | None:
        """Reads the statement; None for DESCRIBE of functions, queries and so on."""
        cursor.take()
        follows = cursor.peek(1)
        if follows is not None and not follows.is_symbol("."):
            if any(cursor.at_words(word) for word in _SPARKS_OWN):
                return None
            cursor.accept_words("TABLE")
        extended = False
        if cursor.peek(1) is not None:
            extended = cursor.accept_words("EXTENDED") or cursor.accept_words("FORMATTED")
        name = cursor.name()
        if cursor.at_words("AS") or cursor.at_words("PARTITION"):
            cursor.fail(f"{cursor.take().text.upper()} is not supported in DESCRIBE; write DESCRIBE [EXTENDED] {name}")
        column = None if cursor.peek() is None else cursor.name("a column", most=9)
        cursor.expect_end()
        return cls(cursor.source, name, extended, column)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per column (name, type, comment), then the partition columns; or info_name, info_value of one.

        Raises InvalidSchema for an unknown column.
        """
        if self.column is not None:
            return self._column(schema, self.column)
        rows, header = list(session.tables.describe(identifier, self.extended)), ("col_name", "data_type", "comment")
        if schema.partition_keys:
            count = len(schema.fields)
            partitions = [row for row in rows[:count] if row[0] in schema.partition_keys]
            rows[count:count] = [("# Partition Information", "", ""), (f"# {header[0]}", *header[1:]), *partitions]
        return text_rows(header, rows)

    def _column(self, schema: TableSchema, name: Name) -> object:
        path = [part.lower() for part in name.parts]
        fields = schema.fields
        column = None
        for part in path:
            column = next((field for field in fields if field.name.lower() == part), None)
            fields = column.type.fields if column is not None and isinstance(column.type, RowType) else ()
        if column is None:
            near = did_you_mean(str(name), schema.field_names)
            raise InvalidSchema(f"table '{self.name}' has no column '{name}'{near}")
        rows = [("col_name", column.name), ("data_type", type_text(column.type)), ("comment", column.description)]
        return text_rows(("info_name", "info_value"), rows)


_TEXTS = pa.list_(pa.string())
_TIME = pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class DescribeDetail(TableStatement, needs=Privilege.READ):
    """``DESCRIBE|DESC DETAIL name``, in Delta's syntax."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> DescribeDetail:
        cursor.take()
        cursor.expect_words("DETAIL")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row: location, keys, files of the newest snapshot, options. Raises NotFound."""
        table = session.tables.open(identifier)
        sizes = SYSTEM_TABLES.create("partitions", table).select(["file_count", "file_size_in_bytes"]).to_arrow()
        snapshot = table.store.latest_snapshot()
        options = [(key, shown_value(key, value)) for key, value in sorted(schema.options.items())]
        columns: dict[str, tuple[object, pa.DataType]] = {
            "format": ("lakelog", pa.string()),
            "name": (table.name, pa.string()),
            "type": ("table" if ViewDefinition.of(schema) is None else "materialized view", pa.string()),
            "description": (schema.comment, pa.string()),
            "location": (table.path, pa.string()),
            "lastModified": (None if snapshot is None else snapshot.time_millis, _TIME),
            "primaryKeys": (list(schema.primary_keys), _TEXTS),
            "partitionColumns": (list(schema.partition_keys), _TEXTS),
            "numBuckets": (schema.num_buckets, pa.int32()),
            "numFiles": (sum(sizes.column(0).to_pylist()), pa.int64()),
            "sizeInBytes": (sum(sizes.column(1).to_pylist()), pa.int64()),
            "properties": (options, pa.map_(pa.string(), pa.string())),
        }
        return pa.table({name: pa.array([value], kind) for name, (value, kind) in columns.items()})


@dataclass(frozen=True)
class DescribeHistory(TableStatement, needs=Privilege.READ):
    """``DESCRIBE|DESC HISTORY name [LIMIT n]``, in Delta's syntax."""

    limit: int | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> DescribeHistory:
        cursor.take()
        cursor.expect_words("HISTORY")
        name = cursor.name()
        limit = cursor.integer("a number of snapshots") if cursor.accept_words("LIMIT") else None
        cursor.expect_end()
        return cls(cursor.source, name, limit)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per snapshot, newest first. Raises NotFound."""
        return snapshot_log(session.tables.open(identifier), self.limit)


@dataclass(frozen=True)
class ShowColumns(TableStatement, needs=Privilege.READ):
    """``SHOW COLUMNS IN|FROM name [IN|FROM database]``."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowColumns:
        cursor.expect_words("SHOW", "COLUMNS")
        if not cursor.accept_words("IN"):
            cursor.expect_words("FROM")
        name = cursor.name()
        if (database := cursor.database()) is not None:
            name = replace(name, parts=(*database.parts, name.parts[-1]))
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per column: col_name. Raises NotFound."""
        return text_rows(("col_name",), ((name,) for name in schema.field_names))


def create_table_text(identifier: Identifier, schema: TableSchema) -> str:
    """The statement that creates a table with exactly this schema, in Spark's dialect, or a materialized view."""
    definition = ViewDefinition.of(schema)
    return _table_text(identifier, schema) if definition is None else _view_text(identifier, schema, definition)


def _view_text(identifier: Identifier, schema: TableSchema, definition: ViewDefinition) -> str:
    """The statement; names without a database mean those of the database in which the view was created."""
    options = {key: value for key, value in schema.options.items() if key != VIEW.key}
    text = f"CREATE MATERIALIZED VIEW {'.'.join(map(quoted_name, identifier.parts))}"
    text += _comment_and_options(schema.comment, options)
    return f"{text}\nREFRESH {definition.refreshes.upper()}\nAS {definition.query.strip()}\n"


def _table_text(identifier: Identifier, schema: TableSchema) -> str:
    lines = [f"  {line}" for line in _column_lines(schema)]
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quoted_name, schema.primary_keys))})")
    text = f"CREATE TABLE {'.'.join(map(quoted_name, identifier.parts))} (\n" + ",\n".join(lines) + ")"
    text += "\nUSING lakelog"
    if schema.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(quoted_name, schema.partition_keys))})"
    return text + _comment_and_options(schema.comment, schema.options) + "\n"


def _comment_and_options(comment: str | None, options: Mapping[str, str]) -> str:
    text = f"\nCOMMENT {quoted_text(comment)}" if comment else ""
    shown = {k: shown_value(k, v) for k, v in sorted(options.items()) if not k.startswith("lakelog.")}
    pairs = (f"  {quoted_text(key)} = {quoted_text(value)}" for key, value in shown.items())
    return text + ("\nTBLPROPERTIES (\n" + ",\n".join(pairs) + ")" if shown else "")


def _column_lines(schema: TableSchema) -> Iterator[str]:
    for field in schema.fields:
        line = f"{quoted_name(field.name)} {type_text(field.type)}"
        if not field.type.nullable and field.name not in schema.primary_keys:
            line += " NOT NULL"
        if field.default_value is not None:
            line += f" DEFAULT {quoted_text(field.default_value)}"
        if field.description:
            line += f" COMMENT {quoted_text(field.description)}"
        yield line


@dataclass(frozen=True)
class ShowCreateTable(TableStatement, needs=Privilege.READ):
    """``SHOW CREATE TABLE name``, also for a materialized view."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowCreateTable:
        """Reads the statement; AS SERDE (Hive's form) is not supported."""
        cursor.expect_words("SHOW", "CREATE", "TABLE")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row: createtab_stmt."""
        return text_rows(("createtab_stmt",), [(create_table_text(identifier, schema),)])


@dataclass(frozen=True)
class ShowPartitions(TableStatement, needs=Privilege.READ):
    """``SHOW PARTITIONS name [PARTITION (…)]``."""

    chosen: PartitionClause | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowPartitions:
        cursor.expect_words("SHOW", "PARTITIONS")
        name = cursor.name()
        chosen = read_partition(cursor, must_have_values=True)
        cursor.expect_end()
        return cls(cursor.source, name, chosen)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per partition with files, such as ``day=2024-01-31/hour=7``. Raises NotFound, InvalidRequest."""
        if not schema.partition_keys:
            raise InvalidRequest(f"table '{self.name}' has no partitions: it was created without PARTITIONED BY")
        table, zone = session.tables.open(identifier), session.engine.zone
        values = {} if self.chosen is None else self.chosen.own_values(schema, self.name, zone)
        chosen = OverwriteTarget(partition_values(schema, values, table.name))
        live = count_files(table.store, table.store.latest_snapshot(), by_bucket=False)
        null = Options(schema.options).need(PARTITION_DEFAULT_NAME)
        names = [partition_path(p, schema, null, zone) for p, _ in live if chosen.matches(p, schema)]
        return text_rows(("partition",), ((name,) for name in sorted(names)))


@dataclass(frozen=True)
class ShowTableExtended(ParsedStatement, needs=Privilege.READ):
    """``SHOW TABLE EXTENDED [IN|FROM [catalog.]db] LIKE 'pattern'``; with PARTITION it is Spark's."""

    database: Name | None
    pattern: str

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTableExtended | None:
        cursor.expect_words("SHOW", "TABLE", "EXTENDED")
        database = cursor.database()
        cursor.expect_words("LIKE")
        pattern = cursor.text_literal("a pattern in quotes")
        if cursor.at_words("PARTITION"):
            return None
        cursor.expect_end()
        return cls(cursor.source, database, pattern)

    def run(self, session: SessionContext) -> object:
        """One row per table: namespace, tableName, isTemporary, information. Raises NotFound for the database."""
        catalog, database = session.resolve_database(self.database)
        rows = []
        for name in matching(session.tables.list_tables(database, catalog), self.pattern):
            facts = session.tables.describe(Identifier(database, name, catalog), True)
            rows.append((database, name, "false", "".join(f"{key}: {value}\n" for key, value, _ in facts if key)))
        return text_rows(("namespace", "tableName", "isTemporary", "information"), rows)


@dataclass(frozen=True)
class ShowTables(ParsedStatement, needs=Privilege.READ):
    """``SHOW TABLES [IN|FROM [catalog.]db] [[LIKE] 'pattern']``; a catalog without a database means its default one."""

    database: Name | None
    pattern: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTables:
        cursor.expect_words("SHOW", "TABLES")
        database, pattern = cursor.database(), None
        if cursor.accept_words("LIKE") or cursor.peek() is not None:
            pattern = cursor.text_literal("IN, FROM, LIKE or a pattern in quotes")
        cursor.expect_end()
        return cls(cursor.source, database, pattern)

    def run(self, session: SessionContext) -> object:
        """One row per table: namespace, tableName. Raises NotFound for the database."""
        catalog, database = session.resolve_database(self.database)
        if self.database is not None and len(self.database.parts) == 1 and session.is_catalog_alone(str(self.database)):
            catalog, database = session.catalogs.need(str(self.database)), DEFAULT_DATABASE
        names = matching(session.tables.list_tables(database, catalog), self.pattern)
        return text_rows(("namespace", "tableName"), ((database, n) for n in names))


@dataclass(frozen=True)
class ShowTblproperties(TableStatement, needs=Privilege.READ):
    """``SHOW TBLPROPERTIES name [('key')]``."""

    key: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTblproperties:
        cursor.expect_words("SHOW", "TBLPROPERTIES")
        name, key = cursor.name(), None
        if cursor.accept_symbol("("):
            key = cursor.option_key()
            cursor.expect_symbol(")")
        cursor.expect_end()
        return cls(cursor.source, name, key)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row an option: key, value; secrets are masked. Raises NotFound."""
        options = {k: shown_value(k, v) for k, v in sorted(schema.options.items())}
        if self.key is None:
            return text_rows(("key", "value"), options.items())
        missing = f"Table {self.name} does not have property: {self.key}"
        return text_rows(("key", "value"), [(self.key, options.get(self.key, missing))])
