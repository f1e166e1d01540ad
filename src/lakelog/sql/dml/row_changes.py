"""The queries of UPDATE and DELETE: changed rows of the target, or the new content of its files.

They consist of unmodified pieces of the user's text, which Spark parses. Rows of a table with a primary key are written
again with a row kind, like a change stream by INSERT. For a table without one, the files with such rows are replaced by
files with the remaining rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lakelog.catalog.base import Identifier
from lakelog.options.log import READ_MODE, SCAN_DATA_FILES
from lakelog.options.table import MERGE_ON_READ
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.sql.runtime.query_plan import FILE, QueryPlan, Source
from lakelog.sql.syntax.fragments import parse_tree
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.sql.syntax.struct_casts import cast_sql
from lakelog.table.model.row_counts import RowCounts

UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
INSERT: Final = "INSERT"
ROW: Final = "_lakelog_row"
_MET: Final = "_lakelog_met"
_FIRST: Final = "_lakelog_first"


@dataclass(frozen=True)
class Clause:
    """A clause for a row: its ``condition`` (None: always) and the new ``values``, text by column name."""

    action: str
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.condition is not None and self.condition.strip().upper() == "NULL":  # has no type, so Spark refuses it
            object.__setattr__(self, "condition", "CAST(NULL AS BOOLEAN)")


@dataclass(frozen=True)
class Target:
    """The changed table in FROM: its name and alias.

    ``columns`` are all columns of the table, ``keys`` its primary key; ``types`` are Spark's types of the columns with
    a simple type, ``newer`` is the required comparison of new sequence field values with old ones. ``emits_before`` is
    True if readers of its changes need the old row, too. ``checks`` is True if Spark's own casts check no values.
    ``files`` are the data files to read, None for all.
    """

    name: str
    alias: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    newer: Mapping[str, str] = field(default_factory=dict)
    emits_before: bool = False
    checks: bool = False
    files: Sequence[str] | None = None

    def column(self, name: str) -> str:
        """A column of the target, as an expression."""
        return f"{quoted_name(self.alias)}.{quoted_name(name)}"

    def typed(self, name: str, given: str) -> str:
        """A new value in the column's type, so that comparisons and joins do not coerce both to another type."""
        if name not in self.types:
            return f"({given})"
        return cast_sql(given, self.types[name], f"column '{name}' of table {self.name}" if self.checks else None)

    @property
    def read(self) -> str:
        """The target in FROM, without its alias, with its current files."""
        options = {READ_MODE.key: "file", MERGE_ON_READ.key: "true"}
        if self.files is not None:
            options[SCAN_DATA_FILES.key] = ",".join(self.files)
        return f"{self.name} /*+ OPTIONS({', '.join(f'{text_of(k)} = {text_of(v)}' for k, v in options.items())}) */"

    @property
    def relation(self) -> str:
        """The target in FROM."""
        return f"{self.read} AS {quoted_name(self.alias)}"

    def new_value(self, name: str, given: str | None) -> str:
        """The updated value of a column; the value of a key column must not change."""
        old = self.column(name)
        if given is None:
            return old
        new = self.typed(name, given)
        if name in self.newer:
            older = (
                f"UPDATE of {self.name} would set '{name}', which orders the rows of a key, to an older value: the old "
                f"row would stay"
            )
            return f"if(coalesce({new} {self.newer[name]} {old}, true), {new}, raise_error({text_of(older)}))"
        if name not in self.keys:
            return new
        wrong = (
            f"UPDATE of {self.name} would change the primary key column '{name}': delete the row and insert another one"
        )
        return f"if({new} <=> {old}, {old}, raise_error({text_of(wrong)}))"


@dataclass(frozen=True)
class RowChange(ABC):
    """A statement that changes rows of a table."""

    target: Target

    @property
    def adds_rows(self) -> bool:
        """True if it may write rows without a change of existing ones."""
        return False

    @abstractmethod
    def changes(self) -> str:
        """The rows to write into a table with a primary key, ``_row_kind`` last."""

    @abstractmethod
    def touched(self) -> str | None:
        """The files (``FILE``) of a table without a key whose rows may change; None for all of them."""

    @abstractmethod
    def left(self) -> str:
        """The rows that replace ``target.files`` in a table without a key.

        A last column ``_row_kind`` is NULL for rows that stay as they are.
        """

    def of_files(self, files: Sequence[str]) -> RowChange:
        """The same for some files of the target."""
        return replace(self, target=replace(self.target, files=files))


@dataclass(frozen=True)
class RowsWhere(RowChange):
    """UPDATE or DELETE of the rows that match the clause's condition."""

    clause: Clause

    def changes(self) -> str:
        target, clause = self.target, self.clause
        if clause.action == DELETE:
            columns = ", ".join(target.column(c) for c in target.columns)
            return f"SELECT {columns}, '-D' AS {ROW_KIND_COLUMN} FROM {target.relation}{self._where}"
        new = {c: target.new_value(c, clause.values.get(c)) for c in target.columns}
        if not target.emits_before:
            columns = ", ".join(f"{value} AS {quoted_name(c)}" for c, value in new.items())
            return f"SELECT {columns}, '+U' AS {ROW_KIND_COLUMN} FROM {target.relation}{self._where}"
        kind = f"{ROW}.{ROW_KIND_COLUMN}"
        columns = ", ".join(
            f"if({kind} = '-U', {target.column(c)}, {value}) AS {quoted_name(c)}" for c, value in new.items()
        )
        kinds = f"LATERAL VIEW explode(array('-U', '+U')) {ROW} AS {ROW_KIND_COLUMN}"
        return f"SELECT {columns}, {kind} AS {ROW_KIND_COLUMN} FROM {target.relation} {kinds}{self._where}"

    def touched(self) -> str | None:
        if self.clause.condition is None:
            return None
        return f"SELECT DISTINCT input_file_name() AS {FILE} FROM {self.target.relation}{self._where}"

    def left(self) -> str:
        target, clause = self.target, self.clause
        if clause.action == DELETE:
            columns = ", ".join(target.column(c) for c in target.columns)
            return f"SELECT {columns} FROM {target.relation} WHERE NOT {self._condition_sql}"
        columns = ", ".join(
            f"if({_MET}, {target.new_value(c, given)}, {target.column(c)}) AS {quoted_name(c)}"
            if (given := clause.values.get(c)) is not None
            else target.column(c)
            for c in target.columns
        )
        # once per row, independent of the condition
        met = f"(SELECT *, {self._condition_sql} AS {_MET} FROM {target.relation})"
        kind = f"if({_MET}, '+U', NULL) AS {ROW_KIND_COLUMN}"
        return f"SELECT {columns}, {kind} FROM {met} AS {quoted_name(target.alias)}"

    @property
    def _where(self) -> str:
        return "" if self.clause.condition is None else f" WHERE ({self.clause.condition})"

    @property
    def _condition_sql(self) -> str:
        return "true" if self.clause.condition is None else f"coalesce(({self.clause.condition}), false)"


@runtime_checkable
class ChangesRows(Protocol):
    """An engine that may do a change by itself."""

    def change_rows(self, identifier: Identifier, change: RowChange, options: Mapping[str, str]) -> RowCounts | None:
        """Changes rows in one commit; None, without any change, if the queries of ``change`` are needed.

        Raises CommitConflict: nothing has changed.
        """


def text_of(value: str) -> str:
    """A text as a literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def with_row_kind(plan: QueryPlan, source: Source) -> QueryPlan | None:
    """The plan with ``_row_kind`` as last column, if each row of the query corresponds to one row of the log.

    Called for an INSERT from a read of a log, so that an update or delete of the source updates or deletes in the
    target. None if the query is not a plain selection from one table (it aggregates, joins, …), or already has the
    column.
    """
    try:
        tree = parse_tree(plan.text)
        tokens = sqlglot.tokenize(plan.text, dialect="spark")
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or not _is_plain(tree):
        return None
    if any(e.is_star or e.alias_or_name == ROW_KIND_COLUMN for e in tree.expressions):
        return None
    depth = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.FROM:
            if before is None:
                return None  # FROM is first
            if before.token_type == TokenType.DISTINCT:
                continue  # IS DISTINCT FROM
            at = before.end + 1
            text = f"{plan.text[:at]}, {ROW_KIND_COLUMN}{plan.text[at:]}"
            columns = None if source.columns is None else (*source.columns, ROW_KIND_COLUMN)
            sources = tuple(replace(s, columns=columns) if s is source else s for s in plan.sources)
            return replace(plan, text=text, sources=sources)
    return None


def _is_plain(tree: exp.Select) -> bool:
    clauses = ("group", "having", "distinct", "joins", "laterals", "limit", "order", "windows", "with_", "with")
    if any(tree.args.get(c) for c in clauses):
        return False
    return not any(tree.find_all(exp.AggFunc, exp.Window, exp.Subquery, exp.Explode))


@dataclass(frozen=True)
class ReplaceWhere(RowChange):
    """Replaces target rows that match ``condition`` with the rows of ``query``, which must match it, too.

    ``columns`` are the target's columns in the query, in its order; ``defaults`` are the column defaults as text.
    """

    condition: str
    query: str
    columns: tuple[str, ...]
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def adds_rows(self) -> bool:
        return True

    def changes(self) -> str:
        target = self.target
        deletes = f"SELECT {self._columns}, '-D' AS {ROW_KIND_COLUMN} FROM {target.relation} WHERE ({self.condition})"
        inserts = f"SELECT *, '+I' AS {ROW_KIND_COLUMN} FROM ({self._new_rows})"
        # a key may be deleted and inserted again; the delete is first
        window = f"PARTITION BY {', '.join(map(quoted_name, target.keys))} ORDER BY {ROW_KIND_COLUMN} DESC"
        values = ", ".join(self._newer(c, window) for c in target.columns)
        both = (
            f"SELECT {values}, {ROW_KIND_COLUMN}, row_number() OVER ({window}) AS {_FIRST} "
            f"FROM ({deletes} UNION ALL {inserts})"
        )
        names = ", ".join(map(quoted_name, target.columns))
        return f"SELECT {names}, {ROW_KIND_COLUMN} FROM ({both}) WHERE {_FIRST} = 1 OR {ROW_KIND_COLUMN} = '+I'"

    def touched(self) -> str | None:
        return f"SELECT DISTINCT input_file_name() AS {FILE} FROM {self.target.relation} WHERE ({self.condition})"

    def left(self) -> str:
        rest = f"SELECT {self._columns}, CAST(NULL AS STRING) AS {ROW_KIND_COLUMN} FROM {self.target.relation}"
        inserts = f"SELECT *, '+I' AS {ROW_KIND_COLUMN} FROM ({self._new_rows})"
        return f"{rest} WHERE NOT coalesce(({self.condition}), false) UNION ALL {inserts}"

    @property
    def _columns(self) -> str:
        return ", ".join(self.target.column(c) for c in self.target.columns)

    @property
    def _new_rows(self) -> str:
        """The new rows with the table's columns; the first column checks the condition, because all are written."""
        target, alias = self.target, quoted_name(self.target.alias)
        rows = f"({self.query}) AS {alias}({', '.join(map(quoted_name, self.columns))})"
        typed = f"SELECT {', '.join(f'{self._value(c)} AS {quoted_name(c)}' for c in target.columns)} FROM {rows}"
        wrong = (
            f"INSERT INTO {target.name} REPLACE WHERE: a new row does not meet the condition, so a repetition of the "
            f"statement would not replace it; filter such rows out or widen the condition"
        )
        first, *others = (target.column(c) for c in target.columns)
        checked = f"if(coalesce(({self.condition}), false), {first}, raise_error({text_of(wrong)}))"
        columns = ", ".join([f"{checked} AS {quoted_name(target.columns[0])}", *others])
        return f"SELECT {columns} FROM ({typed}) AS {alias}"

    def _value(self, name: str) -> str:
        new = self.target.column(name) if name in self.columns else self.defaults.get(name, "NULL")
        return self.target.typed(name, new)

    def _newer(self, name: str, window: str) -> str:
        """A column of a row; a sequence field must not be older than that of the replaced row."""
        column, sign = quoted_name(name), self.target.newer.get(name)
        if sign is None:
            return column
        older = (
            f"INSERT INTO {self.target.name} REPLACE WHERE would set '{name}', which orders the rows of a key, to an "
            f"older value: the new row would not be seen"
        )
        is_first = f"first_value({ROW_KIND_COLUMN}) OVER ({window}) = '+I'"
        is_fine = f"coalesce({is_first} OR {column} {sign} first_value({column}) OVER ({window}), true)"
        return f"if({is_fine}, {column}, raise_error({text_of(older)})) AS {column}"
