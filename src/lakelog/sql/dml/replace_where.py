"""The queries of INSERT INTO … REPLACE WHERE, which replaces the rows that match a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.sql.dml.row_changes import RowChange, text_of
from lakelog.sql.runtime.query_plan import FILE
from lakelog.sql.syntax.lexer import quoted_name

_FIRST = "_lakelog_first"


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
