"""Changes of rows from Python: update, delete, and merge with Delta's builder. Each is one SQL statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.table.model.dynamic_table import DynamicTable

Values = Mapping[str, str]
"""Column → new value, as text of SQL."""


class Statements(Protocol):
    """Runs SQL, and gives a DataFrame or Arrow rows a name in it."""

    def run(self, text: str, **frames: Any) -> list[Any]:
        """Runs a statement in which ``{name}`` stands for one of the frames."""

    def name_of(self, identifier: Identifier) -> str:
        """A table's name in these statements."""


class TableChanges:
    """The methods of ``Table`` that change rows where they are; they start Spark."""

    _table: DynamicTable
    _statements: Statements

    def update(self, set: Values, where: str | None = None) -> None:
        """Gives columns new values in the rows that meet a condition, or in all: ``update({"n": "n + 1"}, "id = 7")``.

        Values and condition are text of SQL. Raises InvalidSchema, UnsupportedFeature, and what UPDATE raises.
        """
        self._statements.run(f"UPDATE {self._sql_name} SET {_assignments(set)}{_where(where)}")

    def delete(self, where: str | None = None) -> None:
        """Deletes the rows that meet a condition (text of SQL), or all of them."""
        self._statements.run(f"DELETE FROM {self._sql_name}{_where(where)}")

    def merge(self, source: Any, on: str, alias: str = "t", source_alias: str = "s") -> MergeBuilder:
        """A MERGE of rows into this table, with Delta's builder; nothing happens before ``execute``.

        ``source`` is a Spark DataFrame, anything with the Arrow stream interface (an Arrow table, polars, pandas), or
        text: a table, a view or a query in parentheses. ``on`` and all conditions name columns by ``alias`` (this
        table) and ``source_alias``.
        """
        return MergeBuilder(self._statements, self._sql_name, source, on, alias, source_alias)

    @property
    def _sql_name(self) -> str:
        identifier = self._table.location.identifier
        branch = "" if self._table.branch == MAIN_BRANCH else f"$branch_{self._table.branch}"
        return self._statements.name_of(replace(identifier, table=identifier.table + branch))


@dataclass(frozen=True)
class MergeBuilder:
    """A MERGE that is being put together; each method returns one with a clause more. The first that fits counts."""

    statements: Statements
    target: str
    source: Any
    on: str
    alias: str
    source_alias: str
    clauses: tuple[str, ...] = ()

    def whenMatchedUpdate(self, set: Values, condition: str | None = None) -> MergeBuilder:  # noqa: N802 - Delta's names
        """Rows of both sides: new values of columns."""
        return self._with("MATCHED", condition, f"UPDATE SET {_assignments(set)}")

    def whenMatchedUpdateAll(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Rows of both sides: all columns are the source's."""
        return self._with("MATCHED", condition, "UPDATE SET *")

    def whenMatchedDelete(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Rows of both sides are deleted."""
        return self._with("MATCHED", condition, "DELETE")

    def whenNotMatchedInsert(self, values: Values, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Rows of the source alone: they come in, with these values."""
        columns = ", ".join(quoted_name(name) for name in values)
        given = f"INSERT ({columns}) VALUES ({', '.join(map(_text, values.values()))})"
        return self._with("NOT MATCHED", condition, given)

    def whenNotMatchedInsertAll(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Rows of the source alone: they come in as they are."""
        return self._with("NOT MATCHED", condition, "INSERT *")

    def whenNotMatchedBySourceUpdate(self, set: Values, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Rows of the table alone: new values of columns."""
        return self._with("NOT MATCHED BY SOURCE", condition, f"UPDATE SET {_assignments(set)}")

    def whenNotMatchedBySourceDelete(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Rows of the table alone are deleted."""
        return self._with("NOT MATCHED BY SOURCE", condition, "DELETE")

    def execute(self) -> None:
        """Merges, in one snapshot. Raises InvalidRequest without a clause, and what MERGE raises."""
        if not self.clauses:
            raise InvalidRequest("a merge needs a clause, such as whenMatchedUpdateAll() or whenNotMatchedInsertAll()")
        frames = {} if isinstance(self.source, str) else {"source": self.source}
        source = self.source if isinstance(self.source, str) else "{source}"
        self.statements.run(
            f"MERGE INTO {self.target} AS {quoted_name(self.alias)} USING {source} AS {quoted_name(self.source_alias)} "
            f"ON {_text(self.on)} {' '.join(self.clauses)}",
            **frames,
        )

    def _with(self, kind: str, condition: str | None, action: str) -> MergeBuilder:
        also = "" if condition is None else f" AND ({_text(condition)})"
        return replace(self, clauses=(*self.clauses, f"WHEN {kind}{also} THEN {action}"))


def _assignments(values: Values) -> str:
    if not values:
        raise InvalidRequest("no column is given a value: write them like {'name': 'upper(name)'}")
    return ", ".join(f"{quoted_name(name)} = {_text(value)}" for name, value in values.items())


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {_text(condition)}"


def _text(given: str) -> str:
    if isinstance(given, str):
        return given
    kind = type(given).__name__
    raise InvalidRequest(f"values and conditions are text of SQL, not {kind}: write them like 's.n + 1'")
