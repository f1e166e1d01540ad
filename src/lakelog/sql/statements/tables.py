"""Statements that create, alter and drop tables and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakelog.catalog.base import Identifier
from lakelog.errors import AlreadyExists, InvalidRequest, InvalidSchema
from lakelog.io.clock import now_ms
from lakelog.options.log import DATA_FORMAT, LOG_ENABLED, LOG_TOPIC, LOG_TYPE
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.option import Options
from lakelog.options.view import VIEW
from lakelog.paimon.schema.changes import ChangeTableComment
from lakelog.paimon.schema.schema import TableSchema, check_schema, new_schema
from lakelog.sql.ddl.alter_table import Alteration, read_alterations
from lakelog.sql.ddl.table_definition import PROVIDERS, Column, TableDefinition, new_table_name
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, TableStatement, empty_result
from lakelog.sql.syntax.clauses import PartitionClause, read_options, read_partition
from lakelog.sql.syntax.lexer import Token
from lakelog.sql.syntax.source_text import SourceText, point_at
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.views.rules import check_no_view


@dataclass(frozen=True)
class CreateTable(ParsedStatement, needs=Privilege.WRITE):
    """``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name (column type …, PRIMARY KEY (…)) …``; ``REPLACE TABLE …``."""

    table: TableDefinition

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateTable | None:
        """Reads the statement; None for a table of Spark."""
        table = TableDefinition.read(cursor)
        if table is None:
            return None
        cursor.expect_end()
        if not table.columns:
            cursor.fail(f"table '{table.name}' needs columns, such as (id int, name string, primary key (id))")
        return cls(cursor.source, table)

    def run(self, session: SessionContext) -> object:
        """Creates the table, and its database if it is missing, so that examples from manuals run unchanged."""
        with new_table_name(session, self.table) as target:
            self.table.create(session, target)
        return empty_result()


@dataclass(frozen=True)
class CreateTableAs(ParsedStatement, needs=Privilege.WRITE):
    """``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [clauses] AS query``; a primary key is one of the clauses."""

    table: TableDefinition
    query: SourceText

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateTableAs | None:
        """Reads everything but the query; None for a table of Spark."""
        table = TableDefinition.read(cursor)
        if table is None:
            return None
        place = cursor.peek()
        if table.columns:
            cursor.fail(
                "the columns of CREATE TABLE … AS SELECT are the query's: leave out those in parentheses", place
            )
        cursor.accept_words("AS")
        first = cursor.peek()
        if first is None:
            cursor.fail_expected("a query")
        return cls(cursor.source, table, SourceText(cursor.source.script, first.start, cursor.source.end))

    def run(self, session: SessionContext) -> object:
        """Creates and fills the table; if the write fails, the table is dropped. Raises AlreadyExists.

        A streaming query starts a streaming write; the result is its StreamingQuery.
        """
        identifier = session.resolve(self.table.name)
        if not self.table.or_replace and session.exists(identifier):
            if self.table.if_not_exists:
                return empty_result()
            raise AlreadyExists(f"table '{identifier}' exists already")
        plan = plan_query(session, self.query)
        with plan.explained():
            columns = tuple(Column(name, kind, None) for name, kind in session.engine.columns_of(plan))
            table = replace(self.table, columns=columns, if_not_exists=False)
            with new_table_name(session, table) as place:
                table.create(session, place)
                try:
                    result = session.engine.insert(place, plan, None, {}, {}, overwrite=False)
                    if not isinstance(result, dict) and place != identifier:
                        result.stop()
                        raise InvalidRequest(f"a stream cannot replace table '{identifier}': drop it first")
                except BaseException:
                    session.tables.drop_table(place, if_exists=True, purge=True)
                    raise
        return empty_result() if isinstance(result, dict) else result


@dataclass(frozen=True)
class CreateTableLike(ParsedStatement, needs=Privilege.WRITE):
    """``CREATE TABLE [IF NOT EXISTS] name LIKE other [USING lakelog] [TBLPROPERTIES (…)]``.

    From a lakelog table it copies columns, keys, partitions and options, but not the topic of the log. From another
    relation, with USING lakelog, it copies the columns.
    """

    name: Name
    if_not_exists: bool
    other: Name
    is_ours: bool
    options: dict[str, str]

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateTableLike | None:
        """Reads the statement; None if a clause is Spark's alone."""
        cursor.expect_words("CREATE", "TABLE")
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name()
        cursor.expect_words("LIKE")
        other = cursor.name()
        is_ours = False
        options: dict[str, str] = {}
        while cursor.peek() is not None:
            if cursor.accept_words("USING"):
                if cursor.name_part("a format").lower() not in PROVIDERS:
                    return None
                is_ours = True
            elif cursor.accept_words("TBLPROPERTIES") or cursor.accept_words("OPTIONS") or cursor.accept_words("WITH"):
                options |= cursor.options()
            else:
                return None
        return cls(cursor.source, name, if_not_exists, other, is_ours, options)

    def run(self, session: SessionContext) -> object:
        """Creates the table. Raises NotFound, AlreadyExists."""
        table = session.own_table(self.other)
        if table is None and not self.is_ours:
            return session.engine.pass_through(self.source.text)
        options = session.tables.canonical_options(self.options, "table")
        schema = self._of_spark(session) if table is None else _as_new(table[1], options)
        copy = replace(schema, options={**schema.options, **options}, time_millis=now_ms())
        check_schema(copy)
        session.create_table(session.resolve(self.name), copy, self.if_not_exists)
        return empty_result()

    def _of_spark(self, session: SessionContext) -> TableSchema:
        query = f"SELECT * FROM {self.other.sql}"
        columns = session.engine.columns_of(plan_query(session, SourceText(query, 0, len(query))))
        return new_schema([(name, kind, None) for name, kind in columns])


def _as_new(schema: TableSchema, stated: Mapping[str, str]) -> TableSchema:
    """The schema of a new table like this one: with new field ids, without the options of the old table only.

    If the ``stated`` options name another log system, the format of the old log is one of them: CREATE TABLE may have
    chosen it for the old system. Without a log, it has no log system and no log partitions, which lakelog may have set.
    """
    dropped = {LOG_TOPIC.key, VIEW.key}
    if stated.get(LOG_TYPE.key, schema.options.get(LOG_TYPE.key)) != schema.options.get(LOG_TYPE.key):
        dropped.add(DATA_FORMAT.key)
    if not Options({**schema.options, **stated}).need(LOG_ENABLED):
        dropped |= {LOG_PARTITIONS.key, LOG_TYPE.key}
    options = {k: v for k, v in schema.options.items() if k not in dropped and not k.startswith("lakelog.")}
    fields = [(f.name, f.type, f.description) for f in schema.fields]
    definition = new_schema(fields, schema.primary_keys, schema.partition_keys, options, schema.comment)
    defaults = [
        replace(new, default_value=old.default_value) for new, old in zip(definition.fields, schema.fields, strict=True)
    ]
    return replace(definition, fields=tuple(defaults))


@dataclass(frozen=True)
class AlterTable(ParsedStatement, needs=Privilege.WRITE):
    """``ALTER TABLE [IF EXISTS] name …``; a table of Spark only is altered by Spark.

    All changes of one statement become one new schema, or none is made. ``problem`` is the syntax error; it is raised
    only for a lakelog table, so that Spark's tables keep Spark's whole syntax.
    """

    name: Name
    if_exists: bool
    alterations: tuple[Alteration, ...] = ()
    new_name: Name | None = None
    problem: InvalidRequest | None = None

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterTable:
        cursor.expect_words("ALTER", "TABLE")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name(most=9)
        try:
            if cursor.accept_words("RENAME", "TO"):
                new_name = cursor.name("the new name of the table")
                cursor.expect_end()
                return cls(cursor.source, name, if_exists, new_name=new_name)
            return cls(cursor.source, name, if_exists, tuple(read_alterations(cursor)))
        except InvalidRequest as problem:
            return cls(cursor.source, name, if_exists, problem=problem)

    def run(self, session: SessionContext) -> object:
        """Changes the table. Raises NotFound unless IF EXISTS, and refused changes' errors with their position."""
        identifier = session.find(self.name) if len(self.name.parts) <= 3 else None
        if identifier is None or not session.exists(identifier):
            if len(self.name.parts) > 3 or session.engine.is_spark_relation(self.name.sql):
                return session.engine.pass_through(self.source.text)
            if self.if_exists:
                return empty_result()
            raise session.no_table(self.name)
        if self.problem is not None:
            raise self.problem
        if self.new_name is not None:
            new_name = self._target(session, identifier, self.new_name)
            session.engine.uncache_table(identifier)
            session.tables.rename_table(identifier, new_name)
            return empty_result()
        try:
            session.tables.alter_table(identifier, [a.change for a in self.alterations])
        except InvalidRequest as refused:
            start_token = self._start_token(session, identifier)
            raise type(refused)(point_at(self.source.script, start_token.start, str(refused))) from None
        return empty_result()

    def _target(self, session: SessionContext, identifier: Identifier, new_name: Name) -> Identifier:
        """A new name without a database stays in the table's own, one without a catalog in the table's catalog."""
        if len(new_name.parts) == 3:
            return session.resolve(new_name)
        return replace(identifier, database=(identifier.database, *new_name.parts)[-2], table=new_name.parts[-1])

    def _start_token(self, session: SessionContext, identifier: Identifier) -> Token:
        """The position of the refused change; that of the first change if it is unknown."""
        schema = session.tables.load_schema(identifier)
        for alteration in self.alterations:
            if schema is None:
                break
            try:
                schema = alteration.change.apply(schema, has_snapshots=True)
            except InvalidRequest:
                return alteration.start_token
        return self.alterations[0].start_token


@dataclass(frozen=True)
class DropTable(ParsedStatement, needs=Privilege.WRITE):
    """``DROP TABLE [IF EXISTS] name [PURGE]``; a table of Spark only is dropped by Spark."""

    name: Name
    if_exists: bool
    purge: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropTable:
        cursor.expect_words("DROP", "TABLE")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name()
        purge = cursor.accept_words("PURGE")
        cursor.expect_end()
        return cls(cursor.source, name, if_exists, purge)

    def run(self, session: SessionContext) -> object:
        """Drops the table. Raises NotFound unless IF EXISTS."""
        identifier = session.find(self.name)
        known = identifier is not None and session.exists(identifier)
        if not known and session.engine.is_spark_relation(self.name.sql):
            return session.engine.pass_through(self.source.text)
        if not known and not self.if_exists:
            raise session.no_table(self.name)
        dropped = session.resolve(self.name)
        if known:
            check_no_view(session.tables.load_schema(dropped), str(dropped))
            session.engine.uncache_table(dropped)
        session.tables.drop_table(dropped, self.if_exists, self.purge)
        return empty_result()


@dataclass(frozen=True)
class CommentOn(TableStatement, needs=Privilege.WRITE):
    """``COMMENT ON TABLE name IS 'text'|NULL``."""

    comment: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> CommentOn:
        cursor.expect_words("COMMENT", "ON", "TABLE")
        name = cursor.name()
        cursor.expect_words("IS")
        comment = None if cursor.accept_words("NULL") else cursor.text_literal("a comment in quotes, or NULL")
        cursor.expect_end()
        return cls(cursor.source, name, comment)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Sets or removes the comment of the table. Raises NotFound."""
        session.tables.alter_table(identifier, [ChangeTableComment(self.comment)])
        return empty_result()


@dataclass(frozen=True)
class AddPartition(TableStatement, needs=Privilege.WRITE):
    """``ALTER TABLE name ADD [IF NOT EXISTS] PARTITION (…) [PARTITION (…) …]``."""

    partitions: tuple[PartitionClause, ...]

    @classmethod
    def parse(cls, cursor: TokenStream) -> AddPartition:
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        cursor.expect_words("ADD")
        cursor.accept_words("IF", "NOT", "EXISTS")
        clauses: list[PartitionClause] = []
        while (clause := read_partition(cursor, must_have_values=True)) is not None:
            clauses.append(clause)
            cursor.accept_symbol(",")
        if cursor.at_words("LOCATION"):
            cursor.fail("LOCATION is not supported: a partition is always in its table's directory")
        cursor.expect_end()
        return cls(cursor.source, name, tuple(clauses))

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Checks the statement; a partition exists from its first row on. Raises InvalidSchema."""
        keys = schema.partition_keys
        for clause in self.partitions:
            values = clause.own_values(schema, self.name, session.engine.zone)
            missing = [name for name in keys if name not in values]
            if missing:
                raise InvalidSchema(f"a partition of table '{self.name}' also needs a value of '{missing[0]}'")
        return empty_result()


@dataclass(frozen=True)
class DropPartition(TableStatement, needs=Privilege.WRITE):
    """``ALTER TABLE name [/*+ OPTIONS(…) */] DROP [IF EXISTS] PARTITION (…)[, PARTITION (…)] [PURGE]``."""

    options: dict[str, str]
    partitions: tuple[PartitionClause, ...]
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropPartition:
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        options = read_options(cursor)
        cursor.expect_words("DROP")
        if_exists = cursor.accept_words("IF", "EXISTS")
        clauses: list[PartitionClause] = []
        while not clauses or cursor.accept_symbol(","):
            clause = read_partition(cursor, must_have_values=True)
            if clause is None:
                cursor.fail_expected("PARTITION (…)")
            clauses.append(clause)
        cursor.accept_words("PURGE")
        cursor.expect_end()
        return cls(cursor.source, name, options, tuple(clauses), if_exists)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Removes the partitions in one snapshot; values of some partition columns mean all that have them.

        Raises NotFound for values that no partition has, unless IF EXISTS.
        """
        specs = [clause.own_values(schema, self.name, session.engine.zone) for clause in self.partitions]
        options = session.tables.canonical_options(self.options, "write")
        session.tables.drop_partitions(identifier, specs, self.if_exists, options)
        return empty_result()
