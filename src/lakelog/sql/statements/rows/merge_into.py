"""MERGE INTO: updates, deletes or inserts rows of a table by the rows of a source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from lakelog.errors import InvalidSchema
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.dml.assignments import Path, cast_nested, default_value, own_values, read_assignments, read_path
from lakelog.sql.dml.merge import Merge
from lakelog.sql.dml.row_changes import DELETE, INSERT, UPDATE, Clause
from lakelog.sql.dml.target import change_rows, resolve_target, with_schema_evolution
from lakelog.sql.dml.views import viewed_table
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.fragments import (
    DmlTarget,
    names_relation,
    qualified,
    read_changed_table,
    read_fragment,
    relation_name,
)
from lakelog.sql.syntax.lexer import Kind, quoted_name
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.sql.syntax.token_stream import TokenStream

MATCHED, MISSING, EXTRA = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"
_RANDOM: Final = frozenset(
    ("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id")
)
"""Functions whose value differs between two reads of a row."""


@dataclass(frozen=True)
class When:
    """One WHEN clause as written; ``values`` None means all columns (``*``)."""

    kind: str
    action: str
    condition: str | None
    values: Mapping[Path, str] | None


@dataclass(frozen=True)
class MergeInto(ParsedStatement, needs=Privilege.WRITE):
    """``MERGE [WITH SCHEMA EVOLUTION] INTO name [alias] USING source [alias] ON condition WHEN … THEN …``, with Spark's
    clauses.
    """

    is_explained: ClassVar[bool] = True

    table: DmlTarget
    source_text: str
    alias: str
    on: str
    clauses: tuple[When, ...]
    evolves: bool = False

    @classmethod
    def parse(cls, cursor: TokenStream) -> MergeInto:
        """Reads the statement; expressions and the source stay text."""
        cursor.check_parentheses()
        cursor.expect_words("MERGE")
        evolves = cursor.accept_words("WITH", "SCHEMA", "EVOLUTION")
        cursor.expect_words("INTO")
        table = read_changed_table(cursor, "USING")
        cursor.expect_words("USING")
        start = cursor.at
        source = read_fragment(cursor, "a table or a query in parentheses", "ON")
        alias = relation_name(cursor, start)
        if alias is None:
            cursor.fail("the source of a MERGE needs an alias: USING (SELECT …) AS s", cursor.tokens[start])
        cursor.expect_words("ON")
        on = read_fragment(cursor, "a condition", "WHEN")
        clauses: list[When] = []
        while cursor.accept_words("WHEN"):
            clauses.append(_when(cursor, table))
        if not clauses:
            cursor.fail_expected("WHEN MATCHED or WHEN NOT MATCHED")
        _check_conditions(cursor, on, clauses)
        cursor.expect_end()
        return cls(cursor.source, table, source, alias, on, tuple(clauses), evolves)

    def run(self, session: SessionContext) -> object:
        """Merges. Raises NotFound, InvalidSchema, UnsupportedFeature."""
        if (view := viewed_table(session, self.table, whole=True)) is not None:
            return replace(self, table=view.table).run(session)
        table = session.changed_table(self.table.name)
        if table is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = table
        columns = tuple(schema.field_names)
        if self.evolves:
            query = f"SELECT * FROM {self.source_text}"
            schema, columns = with_schema_evolution(session, identifier, schema, query, self._named)
        target = resolve_target(session, identifier, self.table, schema, {when.action for when in self.clauses})

        plain = [self._clause(when, schema, columns) for when in self.clauses]
        both = f"{target.relation} CROSS JOIN (SELECT * FROM {self.source_text}) AS {quoted_name(self.alias)}"
        match = FieldMatch.EVOLVED if self.evolves else FieldMatch.SAME_NAMES
        whole_rows = [at for at, w in enumerate(self.clauses) if w.action == UPDATE and w.values is None]
        kept = dict.fromkeys(whole_rows, quoted_name(self.table.alias))
        on = self._short(qualified(self.on, self.table, None))

        def merge(clauses: Sequence[Clause]) -> Merge:
            parts: dict[str, list[Clause]] = {MATCHED: [], MISSING: [], EXTRA: []}
            for when, clause in zip(self.clauses, clauses, strict=True):
                parts[when.kind].append(clause)
            return Merge(target, self.source_text, self.alias, on, parts[MATCHED], parts[MISSING], parts[EXTRA])

        def cast() -> Merge:
            return merge(cast_nested(session, schema, str(self.table.name), both, plain, match, kept))

        return change_rows(session, identifier, merge(plain), self.table.options, cast)

    @property
    def _named(self) -> Collection[str] | None:
        """The columns that the clauses set by name; None if a clause takes all columns of the source."""
        assignments = [when.values for when in self.clauses if when.action != DELETE]
        if any(values is None for values in assignments):
            return None
        return {path[0].lower() for values in assignments for path in values or ()}

    def _short(self, text: str) -> str:
        """An expression without the database in column names of a source that is a plain table name."""
        cursor = TokenStream.over(self.source_text)
        first = cursor.peek()
        if first is None or first.kind not in (Kind.WORD, Kind.QUOTED):
            return text
        name = cursor.name(most=9)
        if name.parts[-1].lower() != self.alias.lower():
            return text
        for front in range(len(name.parts) - 1):
            text = qualified(text, DmlTarget(replace(name, parts=name.parts[front:]), self.alias, {}), None)
        return text

    def _clause(self, when: When, schema: TableSchema, columns: Sequence[str]) -> Clause:
        # a row without a match has the columns of one side only
        bare = {MATCHED: None, MISSING: self.alias, EXTRA: self.table.alias}[when.kind]

        absent = {MATCHED: None, MISSING: self.table.alias, EXTRA: self.alias}[when.kind]
        texts = [when.condition, *(when.values or {}).values()]
        if absent is not None and any(text and names_relation(text, absent) for text in texts):
            raise self.source.error(
                self.source.start,
                f"WHEN {when.kind} is about rows without a row of '{absent}', whose columns it cannot use",
            )

        def own(text: str) -> str:
            return self._short(qualified(text, self.table, bare))

        if when.action == DELETE:
            values: dict[str, str] = {}
        elif when.values is None:
            values = {c: f"{quoted_name(self.alias)}.{quoted_name(c)}" for c in columns}
        else:
            values = own_values(schema, self.table, {c: own(v) for c, v in when.values.items()})
        if when.action == INSERT:
            _check_not_null(schema, values, self.table)
            defaults = {f.name: default_value(f) for f in schema.fields if f.default_value is not None}
            values = {**defaults, **values}
        return Clause(when.action, None if when.condition is None else own(when.condition), values)


def _when(cursor: TokenStream, table: DmlTarget) -> When:
    kind = MATCHED
    if cursor.accept_words("NOT"):
        kind = MISSING
    cursor.expect_words("MATCHED")
    if kind == MISSING and cursor.accept_words("BY"):
        if cursor.accept_words("SOURCE"):
            kind = EXTRA
        else:
            cursor.expect_words("TARGET")
    condition = read_fragment(cursor, "a condition", "THEN") if cursor.accept_words("AND") else None
    cursor.expect_words("THEN")
    actions: dict[str, Callable[[], Mapping[Path, str] | None]] = {
        UPDATE: lambda: _update(cursor, table),
        DELETE: dict,
        INSERT: lambda: _insert(cursor, table),
    }
    allowed = (INSERT,) if kind == MISSING else (UPDATE, DELETE)
    action = next((a for a in allowed if cursor.accept_words(a)), None)
    if action is None:
        cursor.fail_expected(" or ".join(allowed))
    return When(kind, action, condition, actions[action]())


def _update(cursor: TokenStream, table: DmlTarget) -> Mapping[Path, str] | None:
    if cursor.accept_symbol("*"):
        return None
    cursor.expect_words("SET")
    return None if cursor.accept_symbol("*") else read_assignments(cursor, table, "WHEN")


def _insert(cursor: TokenStream, table: DmlTarget) -> Mapping[Path, str] | None:
    if cursor.accept_symbol("*"):
        return None
    start_token = cursor.peek()
    columns = _insert_columns(cursor, table)
    cursor.expect_words("VALUES")
    cursor.expect_symbol("(")
    values = [read_fragment(cursor, "a value", comma=True)]
    while cursor.accept_symbol(","):
        values.append(read_fragment(cursor, "a value", comma=True))
    cursor.expect_symbol(")", " after the values")
    if len(columns) != len(values):
        cursor.fail(f"INSERT names {len(columns)} columns and has {len(values)} values", start_token)
    if len({c.lower() for c in columns}) < len(columns):
        cursor.fail("INSERT names a column twice", start_token)
    return {(column,): value for column, value in zip(columns, values, strict=True)}


def _insert_columns(cursor: TokenStream, table: DmlTarget) -> list[str]:
    """``(a, t.b)``: columns of the target, with or without its name."""
    cursor.expect_symbol("(")
    paths: list[str] = []
    while not paths or cursor.accept_symbol(","):
        start_token = cursor.peek()
        path = read_path(cursor, table)
        if len(path) > 1:
            cursor.fail(f"INSERT takes whole columns, '{'.'.join(path)}' is a part of one", start_token)
        paths += path
    cursor.expect_symbol(")", " after a column")
    return paths


def _check_conditions(cursor: TokenStream, on: str, clauses: Sequence[When]) -> None:
    """Raises UnsupportedStatement for a condition that is not deterministic, because rows are read more than once.

    Also for a clause after one of its kind that takes all rows.
    """
    for text in (on, *(clause.condition for clause in clauses)):
        inner = TokenStream.over(text or "")
        while (token := inner.peek()) is not None:
            after = inner.peek(1)
            if token.text.lower() in _RANDOM and after is not None and after.text == "(":
                cursor.fail(f"a condition of MERGE must be deterministic, and {token.text}() is not")
            inner.take()
    for at, clause in enumerate(clauses):
        if clause.condition is None and any(later.kind == clause.kind for later in clauses[at + 1 :]):
            cursor.fail(
                f"a WHEN {clause.kind} clause without a condition takes all rows: give it a condition with AND, or "
                f"write it after the other WHEN {clause.kind} clauses"
            )


def _check_not_null(schema: TableSchema, values: Mapping[str, str], table: DmlTarget) -> None:
    for field in schema.fields:
        if not field.type.nullable and field.name not in values and field.default_value is None:
            raise InvalidSchema(f"column '{field.name}' of table {table.name} is NOT NULL: INSERT must give it a value")
