"""The queries of MERGE: a join of target and source, in which each row matches at most one clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.sql.dml.row_changes import DELETE, INSERT, ROW, UPDATE, Clause, RowChange, text_of
from lakelog.sql.runtime.query_plan import FILE
from lakelog.sql.syntax.lexer import quoted_name

_ACTION = "_lakelog_action"
_TARGET = "_lakelog_target"
_SOURCE = "_lakelog_source"
_NUMBER = "_lakelog_number"
_ID = "_lakelog_id"
_FIRST = "_lakelog_first"
_JOINS = {
    (False, False): "INNER",
    (True, False): "RIGHT OUTER",
    (False, True): "LEFT OUTER",
    (True, True): "FULL OUTER",
}


@dataclass(frozen=True)
class Merge(RowChange):
    """A MERGE: ``source`` is a relation of FROM, ``alias`` its name, ``on`` the condition; then the clauses.

    ``missing`` are the clauses of source rows without a target row, ``extra`` of target rows without a source row.
    """

    source: str
    alias: str
    on: str
    matched: Sequence[Clause] = ()
    missing: Sequence[Clause] = ()
    extra: Sequence[Clause] = ()

    @property
    def adds_rows(self) -> bool:
        return True

    @property
    def only_inserts(self) -> bool:
        """True if no row of the target changes."""
        return not self.matched and not self.extra

    def changes(self) -> str:
        target = self.target
        acting = f"SELECT * FROM ({self._joined((bool(self.missing), bool(self.extra)))}) WHERE {_ACTION} > 0"
        if self._is_checked:
            keys = [f"_o{i}" for i, c in enumerate(target.columns) if c in target.keys]
            several = f"count(*) OVER (PARTITION BY {', '.join([*keys, _NUMBER])}) > 1 AND {_NUMBER} = 0"
            acting = f"SELECT {self._values}, {self._checked(several)} AS {_ACTION} FROM ({acting})"
        if self._numbers(DELETE):
            # a key may be deleted and written; the delete is first, and only once
            key = ", ".join(
                f"if({_ACTION} IN ({self._numbers(DELETE)}), _o{i}, _n{i})"
                for i, c in enumerate(target.columns)
                if c in target.keys
            )
            order = f"row_number() OVER (PARTITION BY {key} ORDER BY if({_ACTION} IN ({self._numbers(DELETE)}), 0, 1))"
            acting = f"SELECT {self._values}, {_ACTION}, {order} AS {_FIRST} FROM ({acting})"
            acting = f"SELECT * FROM ({acting}) WHERE {_FIRST} = 1 OR {_ACTION} NOT IN ({self._numbers(DELETE)})"
        kinds = {UPDATE: "'-U', '+U'" if target.emits_before else "'+U'", DELETE: "'-D'", INSERT: "'+I'"}
        cases = " ".join(
            f"WHEN {_ACTION} IN ({self._numbers(action)}) THEN array({kind})"
            for action, kind in kinds.items()
            if self._numbers(action)
        )
        before = f"{ROW}.{ROW_KIND_COLUMN} IN ('-D', '-U')"
        columns = ", ".join(f"if({before}, _o{i}, _n{i}) AS {quoted_name(c)}" for i, c in enumerate(target.columns))
        return (
            f"SELECT {columns}, {ROW}.{ROW_KIND_COLUMN} AS {ROW_KIND_COLUMN} FROM ({acting}) "
            f"LATERAL VIEW explode(CASE {cases} END) {ROW} AS {ROW_KIND_COLUMN}"
        )

    def touched(self) -> str | None:
        if self.extra or self.missing:
            # with a nondeterministic source, a row must not become unmatched because its file is skipped
            return None
        target = f"(SELECT *, input_file_name() AS {FILE} FROM {self.target.read}) AS {quoted_name(self.target.alias)}"
        return f"SELECT DISTINCT {self.target.column(FILE)} FROM {target} JOIN {self._marked_source} ON {self.on}"

    def left(self) -> str:
        # each row of the target once, with its matching clause, if any
        window = f"PARTITION BY {_ID}, {_NUMBER}"
        several = f"sum(if({_ACTION} > 0, 1, 0)) OVER ({window}) > 1 AND {_NUMBER} = 0"
        action = self._checked(several) if self._is_checked else _ACTION
        first = f"row_number() OVER ({window} ORDER BY {_ACTION} DESC) AS {_FIRST}"
        joined = self._joined((bool(self.missing), True))
        rows = f"SELECT {self._values}, _is, {action} AS {_ACTION}, {first} FROM ({joined})"
        not_deleted = f" AND {_ACTION} NOT IN ({self._numbers(DELETE)})" if self._numbers(DELETE) else ""
        columns = ", ".join(
            f"if({_ACTION} = 0, _o{i}, _n{i}) AS {quoted_name(c)}" for i, c in enumerate(self.target.columns)
        )
        kinds = "".join(
            f" WHEN {_ACTION} IN ({self._numbers(action)}) THEN '{kind}'"
            for action, kind in ((UPDATE, "+U"), (INSERT, "+I"))
            if self._numbers(action)
        )
        kind = f", CASE{kinds} END AS {ROW_KIND_COLUMN}" if kinds else ""
        return f"SELECT {columns}{kind} FROM ({rows}) WHERE {_FIRST} = 1 AND (_is OR {_ACTION} > 0){not_deleted}"

    @property
    def _clauses(self) -> list[Clause]:
        """All clauses; the number of a clause is its 1-based position."""
        return [*self.matched, *self.missing, *self.extra]

    @property
    def _is_checked(self) -> bool:
        """True if several source rows for one target row are an error, which they are not if all delete it."""
        alone = self.matched[0] if len(self.matched) == 1 else None
        return bool(self.matched) and (alone is None or alone.action != DELETE or alone.condition is not None)

    @property
    def _values(self) -> str:
        return ", ".join(f"_o{i}, _n{i}" for i in range(len(self.target.columns)))

    @property
    def _marked_source(self) -> str:
        return f"(SELECT *, 1 AS {_SOURCE} FROM {self.source}) AS {quoted_name(self.alias)}"

    def _numbers(self, action: str) -> str:
        return ", ".join(str(i) for i, c in enumerate(self._clauses, 1) if c.action == action)

    def _checked(self, several: str) -> str:
        """The action, which fails if ``several`` is true; as a part of the action the check is always evaluated."""
        wrong = f"MERGE INTO {self.target.name}: several source rows match one row, and each of them would change it"
        return f"if({several}, raise_error({text_of(wrong)}), {_ACTION})"

    def _joined(self, kept: tuple[bool, bool]) -> str:
        """The join, with each row's clause number (0: none), its old values and its new ones.

        ``kept`` are two flags: keep source rows, and target rows, without a match.
        """
        target = self.target
        is_target = f"{target.column(_TARGET)} IS NOT NULL"
        is_source = f"{quoted_name(self.alias)}.{_SOURCE} IS NOT NULL"
        first = [1, 1 + len(self.matched), 1 + len(self.matched) + len(self.missing)]
        action = (
            f"CASE WHEN {is_target} AND {is_source} THEN {_numbered(self.matched, first[0])} "
            f"WHEN {is_source} THEN {_numbered(self.missing, first[1])} ELSE {_numbered(self.extra, first[2])} END"
        )
        both = f"{is_target} AND {is_source}"
        is_one = both if target.keys else is_target
        columns = [f"{action} AS {_ACTION}", f"{is_target} AS _is"]
        columns += [
            f"if({is_one}, 0, monotonically_increasing_id() + 1) AS {_NUMBER}",
            f"{target.column(_ID)} AS {_ID}",
        ]
        for i, name in enumerate(target.columns):
            columns += [f"{target.column(name)} AS _o{i}", f"{self._new(name)} AS _n{i}"]
        return (
            f"SELECT {', '.join(columns)} FROM (SELECT *, 1 AS {_TARGET}, monotonically_increasing_id() AS {_ID} "
            f"FROM {target.read}) AS {quoted_name(target.alias)} {_JOINS[kept]} JOIN {self._marked_source} ON {self.on}"
        )

    def _new(self, name: str) -> str:
        cases = []
        for number, clause in enumerate(self._clauses, 1):
            value = clause.values.get(name)
            if clause.action == UPDATE:
                cases.append(f"WHEN {number} THEN {self.target.new_value(name, value)}")
            elif clause.action == INSERT:
                cases.append(f"WHEN {number} THEN {'NULL' if value is None else self.target.typed(name, value)}")
        return f"CASE {_ACTION} {' '.join(cases)} END" if cases else self.target.typed(name, "NULL")


def _numbered(clauses: Sequence[Clause], first: int) -> str:
    """The number of the first clause whose condition is true, or 0."""
    if not clauses:
        return "0"
    cases = " ".join(f"WHEN {c.condition or 'true'} THEN {n}" for n, c in enumerate(clauses, first))
    return f"CASE {cases} ELSE 0 END"
