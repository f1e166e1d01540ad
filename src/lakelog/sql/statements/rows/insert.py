"""INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.dml.assignments import default_sql, default_value
from lakelog.sql.dml.row_changes import DELETE, INSERT, ReplaceWhere
from lakelog.sql.dml.target import change_rows, resolve_target, with_schema_evolution
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, insert_result
from lakelog.sql.syntax.clauses import PartitionClause, read_options, read_partition
from lakelog.sql.syntax.fragments import (
    DmlTarget,
    Place,
    qualified,
    read_defaults,
    read_fragment,
    read_row_lengths,
    with_values,
)
from lakelog.sql.syntax.source_text import SourceText, point_at
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.sql.syntax.token_stream import Name, TokenStream

_QUERY_WORDS = ("SELECT", "VALUES", "WITH", "TABLE")


@dataclass(frozen=True)
class Insert(ParsedStatement, needs=Privilege.WRITE):
    """``[WITH …] INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE [TABLE] name [PARTITION (…)] [(columns) | BY NAME]
    [/*+ OPTIONS */] [REPLACE WHERE condition] SELECT …``.

    The query has the table's columns in order, without those that have a value in PARTITION; with that clause, the
    partition columns come last. With BY NAME it has any of them by name, and the others get their defaults. ``query``
    is the text of the query only. With a condition, the query's rows replace the rows that meet it.
    """

    is_explained: ClassVar[bool] = True

    name: Name
    columns: tuple[str, ...] | None
    options: dict[str, str]
    query: SourceText
    condition: str | None = None
    overwrite: bool = False
    partition: PartitionClause | None = None
    by_name: bool = False
    evolves: bool = False
    defaults: tuple[Place, ...] = ()
    row_lengths: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, cursor: TokenStream) -> Insert | None:
        """Reads everything but the query. None for INSERT OVERWRITE DIRECTORY, which is Spark's."""
        cursor.check_parentheses()
        while not cursor.at_words("INSERT"):
            cursor.skip_group()
        head = cursor.take()
        evolves = cursor.accept_words("WITH", "SCHEMA", "EVOLUTION")
        overwrite = cursor.accept_words("OVERWRITE")
        if overwrite and (cursor.at_words("DIRECTORY") or cursor.at_words("LOCAL", "DIRECTORY")):
            return None
        if overwrite:
            cursor.accept_words("INTO")
        else:
            cursor.expect_words("INTO")
        cursor.accept_words("TABLE")
        name = cursor.name()
        options = read_options(cursor)
        partition = read_partition(cursor, must_have_values=False)
        options |= read_options(cursor)
        columns = None
        if cursor.at_symbol("(") and not _at_query(cursor, 1):
            columns = cursor.names_in_parentheses("a column")
            options |= read_options(cursor)
        start_token = cursor.peek()
        by_name = columns is None and cursor.accept_words("BY", "NAME")
        if evolves and not by_name:
            cursor.fail(
                "new columns take their names from the query: write WITH SCHEMA EVOLUTION … BY NAME", start_token
            )
        condition = None
        start_token = cursor.peek()
        if cursor.accept_words("REPLACE", "WHERE"):
            if overwrite or partition is not None:
                cursor.fail(
                    "REPLACE WHERE selects the rows to replace: write INSERT INTO without PARTITION", start_token
                )
            condition = read_fragment(cursor, "a condition", *_QUERY_WORDS)
        first = cursor.peek()
        if first is None or not _at_query(cursor, 0):
            cursor.fail_expected("SELECT, VALUES or a list of columns")
        script, defaults, lengths = cursor.source.script, read_defaults(cursor), read_row_lengths(cursor)
        query = SourceText(script, first.start, cursor.source.end)
        if head.start > cursor.source.start:
            # WITH … INSERT: the text between its expressions and the query is blanked, so that all positions stay.
            blank = "".join(c if c == "\n" else " " for c in script[head.start : first.start])
            query = SourceText(
                script[: head.start] + blank + script[first.start :], cursor.source.start, cursor.source.end
            )
        return cls(
            cursor.source, name, columns, options, query, condition, overwrite, partition, by_name, evolves, defaults,
            lengths,
        )  # fmt: skip

    def run(self, session: SessionContext) -> object:
        """Writes the rows and returns their counts; for a streaming query starts the write and returns it."""
        identifier = session.find(self.name)
        schema = None if identifier is None else session.tables.load_schema(identifier)
        if identifier is None or schema is None:
            return self._insert_into_spark(session)
        session.engine.check_assignments()
        if self.evolves:
            schema, _ = with_schema_evolution(session, identifier, schema, self.query.text)
        values = {} if self.partition is None else self.partition.own_values(schema, self.name, session.engine.zone)
        columns = None if self.columns is None else self._own_columns(schema, self.columns)
        if self.partition is not None and columns is None:
            # as in a table of Spark, whose partition columns are its last ones
            columns = tuple(sorted(schema.field_names, key=lambda name: name in schema.partition_keys))
        if values:
            columns = tuple(c for c in columns or schema.field_names if c not in values)
        options = session.tables.canonical_options(self.options, "write")
        if not self.by_name and "$" not in identifier.table:  # the write refuses a system table
            self._check_lengths(columns or schema.field_names)
        defaults = [default_sql(schema.field(name)) for name in columns or schema.field_names] if self.defaults else []
        query = with_values(self.query, self.defaults, defaults)
        plan = plan_query(session, query, deletes=schema.is_keyed and not self.overwrite)
        with plan.explained():
            if self.by_name:
                columns = self._own_columns(
                    schema, [name for name, _ in session.engine.columns_of(plan, allow_null=True)]
                )
                self._check_free(columns, values)
            if self.condition is not None:
                return self._replace(session, identifier, schema, self.condition, columns, query)
            by_name = FieldMatch.EVOLVED if self.evolves else FieldMatch.NAME
            match = by_name if self.by_name else FieldMatch.POSITION
            done = session.engine.insert(identifier, plan, columns, options, values, self.overwrite, match)
            return insert_result(done)

    def _replace(
        self,
        session: SessionContext,
        identifier: Identifier,
        schema: TableSchema,
        given: str,
        columns: tuple[str, ...] | None,
        given_query: SourceText,
    ) -> object:
        """Replaces the rows that meet the condition by those of the query, in one commit."""
        table = DmlTarget(self.name, self.name.parts[-1], self.options)
        target = resolve_target(session, identifier, table, schema, (DELETE, INSERT))
        query = given_query.text + ("\n" if "--" in given_query.text else "")
        defaults = {f.name: default_value(f) for f in schema.fields if f.default_value is not None}
        condition = qualified(given, table, None)
        change = ReplaceWhere(target, condition, query, columns or tuple(schema.field_names), defaults)
        return change_rows(session, identifier, change, self.options)

    def _insert_into_spark(self, session: SessionContext) -> object:
        """Writes a table of Spark only, also from lakelog tables."""
        if not session.engine.is_spark_relation(self.name.sql):
            raise session.no_table(self.name)
        if self.options:
            raise self.source.error(
                self.name.end, f"OPTIONS(…) here needs a lakelog table, and '{self.name}' is a Spark table"
            )
        source = self.source
        if self.query.script is not source.script:  # the query is not a part of the text
            plan = plan_query(session, source)
        else:
            plan = plan_query(session, self.query).with_prefix(source.script[source.start : self.query.start])
        return session.run_query(plan) if plan.reads_tables else session.engine.pass_through(source.text)

    def _check_lengths(self, columns: Sequence[str]) -> None:
        """Raises InvalidSchema for a row of VALUES with another number of values than the columns."""
        wrong = next((length for length in self.row_lengths if length != len(columns)), None)
        if wrong is not None:
            text = (
                f"a row of INSERT INTO {self.name} has {wrong} value{'s' * (wrong != 1)}, and there are "
                f"{len(columns)} columns: {', '.join(columns)}. Name the columns that have a value: INSERT INTO "
                f"{self.name} (…) VALUES …"
            )
            raise InvalidSchema(point_at(self.source.script, self.row_lengths[wrong], text))

    def _check_free(self, columns: tuple[str, ...], values: Mapping[str, str | None]) -> None:
        """Checks that a column has its value from PARTITION or from the query. Raises InvalidSchema for both."""
        both = next((column for column in columns if column in values), None)
        if both is not None:
            raise InvalidSchema(f"column '{both}' of INSERT INTO {self.name} is both in PARTITION and in the query")

    def _own_columns(self, schema: TableSchema, columns: Sequence[str]) -> tuple[str, ...]:
        """The given columns in the table's spelling. Raises InvalidSchema for an unknown or repeated one."""
        by_fold = {name.lower(): name for name in schema.field_names}
        out: list[str] = []
        for column in columns:
            own = by_fold.get(column.lower())
            if own is None:
                near = did_you_mean(column, schema.field_names)
                known = ", ".join(schema.field_names)
                raise InvalidSchema(f"table '{self.name}' has no column '{column}'{near} Its columns: {known}")
            if own in out:
                raise InvalidSchema(f"column '{own}' is named twice in INSERT INTO {self.name} (…)")
            out.append(own)
        return tuple(out)


def _at_query(cursor: TokenStream, ahead: int) -> bool:
    token = cursor.peek(ahead)
    while token is not None and token.is_symbol("("):
        ahead += 1
        token = cursor.peek(ahead)
    return token is not None and token.is_word(*_QUERY_WORDS, "FROM")
