"""Row changes from Python: update, delete, and merge with Delta's builder. Each is one SQL statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.options.boundary import Public
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts

Values = Mapping[str, str]
"""Column → new value, as SQL text."""


class Statements(Protocol):
    """Runs SQL, and names DataFrames or Arrow rows in it."""

    def run(self, text: str, **frames: Any) -> list[Any]:
        """Runs a statement with ``{name}`` as a reference to one of the frames."""

    def name_of(self, identifier: Identifier) -> str:
        """A table's name in these statements."""


class TableChanges(Public):
    """The methods of ``Table`` that change existing rows.

    They run on Spark. Where there is no PySpark or no Java, this process runs the simple ones (``sql/local``).
    """

    _table: DynamicTable
    _statements: Statements

    def update(self, set: Values, where: str | None = None) -> RowCounts:
        """Updates columns in the rows that match a condition, or in all: ``update({"n": "n + 1"}, "id = 7")``.

        Values and condition are SQL text. Returns the number of changed rows. Raises InvalidSchema, UnsupportedFeature,
        and the errors of UPDATE.

        ```pycon
        >>> t.update({"name": "'gin'"}, where="id = 2")["num_updated_rows"]
        1
        ```
        """
        return _counts(self._statements.run(f"UPDATE {self._sql_name} SET {_assignments(set)}{_where(where)}"))

    def delete(self, where: str | None = None) -> RowCounts:
        """Deletes the rows that match a condition (SQL text), or all of them; returns their number.

        ```pycon
        >>> t.delete("id = 2")["num_deleted_rows"]
        1
        ```
        """
        return _counts(self._statements.run(f"DELETE FROM {self._sql_name}{_where(where)}"))

    def merge(self, source: Any, on: str, alias: str = "t", source_alias: str = "s") -> MergeBuilder:
        """A MERGE of rows into this table, with Delta's builder; it runs on ``execute``.

        ``source`` is a Spark DataFrame, anything with the Arrow stream interface (an Arrow table, polars, pandas), or
        text: a table, a view or a query in parentheses. ``on`` and all conditions name columns by ``alias`` (this
        table) and ``source_alias``.

        ```pycon
        >>> new = pl.DataFrame({"id": [2, 3], "name": ["gin", "rum"]})
        >>> merge = t.merge(new, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all()
        >>> merge.execute()["num_affected_rows"]
        2
        ```
        """
        return MergeBuilder(self._statements, self._sql_name, source, on, alias, source_alias)

    @property
    def _sql_name(self) -> str:
        identifier = self._table.location.identifier
        branch = "" if self._table.branch == MAIN_BRANCH else f"$branch_{self._table.branch}"
        return self._statements.name_of(replace(identifier, table=identifier.table + branch))


@dataclass(frozen=True)
class MergeBuilder(Public):
    """An incomplete MERGE. Each method returns a builder with one more clause; the first matching clause applies.

    The methods have Delta's names, and the same in snake_case.
    """

    statements: Statements
    target: str
    source: Any
    on: str
    alias: str
    source_alias: str
    clauses: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The statement so far, without its source."""
        return f"MergeBuilder(merge into {self.target} {self.alias} on {self.on}: {len(self.clauses)} clauses)"

    def whenMatchedUpdate(self, set: Values, condition: str | None = None) -> MergeBuilder:  # noqa: N802 - Delta's names
        """Updates columns of rows on both sides."""
        return self._with("MATCHED", condition, f"UPDATE SET {_assignments(set)}")

    def whenMatchedUpdateAll(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Updates all columns of rows on both sides from the source."""
        return self._with("MATCHED", condition, "UPDATE SET *")

    def whenMatchedDelete(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Deletes rows on both sides."""
        return self._with("MATCHED", condition, "DELETE")

    def whenNotMatchedInsert(self, values: Values, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Inserts rows only in the source, with these values."""
        columns = ", ".join(quoted_name(name) for name in values)
        action = f"INSERT ({columns}) VALUES ({', '.join(map(_text, values.values()))})"
        return self._with("NOT MATCHED", condition, action)

    def whenNotMatchedInsertAll(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Inserts rows only in the source, unchanged."""
        return self._with("NOT MATCHED", condition, "INSERT *")

    def whenNotMatchedBySourceUpdate(self, set: Values, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Updates columns of rows only in the table."""
        return self._with("NOT MATCHED BY SOURCE", condition, f"UPDATE SET {_assignments(set)}")

    def whenNotMatchedBySourceDelete(self, condition: str | None = None) -> MergeBuilder:  # noqa: N802
        """Deletes rows only in the table."""
        return self._with("NOT MATCHED BY SOURCE", condition, "DELETE")

    def execute(self) -> RowCounts:
        """Runs the merge in one snapshot; returns the number of changed rows.

        Raises InvalidRequest without a clause, and the errors of MERGE.
        """
        if not self.clauses:
            raise InvalidRequest("a merge needs a clause, such as whenMatchedUpdateAll() or whenNotMatchedInsertAll()")
        frames = {} if isinstance(self.source, str) else {"source": self.source}
        source = self.source if isinstance(self.source, str) else "{source}"
        done = self.statements.run(
            f"MERGE INTO {self.target} AS {quoted_name(self.alias)} USING {source} AS {quoted_name(self.source_alias)} "
            f"ON {_text(self.on)} {' '.join(self.clauses)}",
            **frames,
        )
        return _counts(done)

    when_matched_update, when_matched_update_all = whenMatchedUpdate, whenMatchedUpdateAll
    when_matched_delete = whenMatchedDelete
    when_not_matched_insert, when_not_matched_insert_all = whenNotMatchedInsert, whenNotMatchedInsertAll
    when_not_matched_by_source_update = whenNotMatchedBySourceUpdate
    when_not_matched_by_source_delete = whenNotMatchedBySourceDelete

    def _with(self, kind: str, condition: str | None, action: str) -> MergeBuilder:
        also = "" if condition is None else f" AND ({_text(condition)})"
        return replace(self, clauses=(*self.clauses, f"WHEN {kind}{also} THEN {action}"))


def _counts(results: Sequence[Any]) -> RowCounts:
    counts: RowCounts = results[-1].to_pylist()[0]
    return counts


def _assignments(values: Values) -> str:
    if not values:
        raise InvalidRequest("no column gets a value: write them like {'name': 'upper(name)'}")
    return ", ".join(f"{quoted_name(name)} = {_text(value)}" for name, value in values.items())


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {_text(condition)}"


def _text(value: str) -> str:
    if isinstance(value, str):
        return value
    kind = type(value).__name__
    raise InvalidRequest(f"values and conditions are SQL text, not {kind}: write them like 's.n + 1'")
