"""New values of nested columns in UPDATE and MERGE, with the fields of structs by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lakelog.errors import InvalidSchema
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import ArrayType, AtomicType, DataType, MapType, MultisetType, VectorType
from lakelog.sql.dml.row_changes import Clause
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_text, has_struct, is_time, spark_text

_LITERAL: Final = re.compile(r"\s*(?:'[^'\\]*'|NULL)\s*", re.IGNORECASE)
"""A value that any column takes, or refuses because of its text."""
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
_BYTES: Final = ("BINARY", "VARBINARY")


def cast_nested(
    session: SessionContext,
    schema: TableSchema,
    table: str,
    relation: str,
    clauses: Sequence[Clause],
    match: FieldMatch = FieldMatch.SAME_NAMES,
    kept: Mapping[int, str] = MappingProxyType({}),
) -> list[Clause]:
    """The clauses with new values of nested columns and times in the table's types, fields of structs by name.

    Raises InvalidSchema for a value of another meaning than its column, such as a number for a time: as INSERT.

    ``kept`` names the target in those clauses, by position, that keep the fields which a new value lacks.
    ``relation`` is the FROM of a query in which all values have a meaning; it is only analysed.
    """
    session.engine.check_assignments()
    types = {field.name: field.type for field in schema.fields}
    found = [
        (at, name, value)
        for at, clause in enumerate(clauses)
        for name, value in clause.values.items()
        if is_time(types[name]) or not _LITERAL.fullmatch(value)
    ]
    if not found:
        return list(clauses)
    columns = ", ".join(f"({value}) AS _v{i}" for i, (_, _, value) in enumerate(found))
    query = f"SELECT {columns} FROM {relation}"
    plan = plan_query(session, SourceText(query, 0, len(query)))
    with plan.explained():
        have = [kind for _, kind in session.engine.columns_of(plan, allow_null=True)]
    checks = not session.engine.checks_casts()
    new: list[dict[str, str]] = [dict(c.values) for c in clauses]
    for (at, name, value), kind in zip(found, have, strict=True):
        if has_struct(kind) or is_time(types[name]):
            now = f"{kept[at]}.{quoted_name(name)}" if at in kept else None
            new[at][name] = cast_text(value, kind, types[name], match, name, table, checks, now)
        elif not _can_assign(kind, types[name]):
            raise InvalidSchema(
                f"column '{name}' of table {table} is {spark_text(types[name])}, but the statement sets it to a value "
                f"of type {spark_text(kind)}: cast it"
            )
    return [replace(c, values=values) for c, values in zip(clauses, new, strict=True)]


def _can_assign(have: DataType, want: DataType) -> bool:
    """Whether a column takes values of a type, as an INSERT; texts are parsed."""
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return _can_assign(have.element, want.element)
    if isinstance(have, MapType) and isinstance(want, MapType):
        return _can_assign(have.key, want.key) and _can_assign(have.value, want.value)
    if not (isinstance(have, AtomicType) and isinstance(want, AtomicType)):
        return type(have) is type(want) or isinstance(want, VectorType | MultisetType) or _is_text(have)
    if have.root == want.root or _is_text(have) or _is_text(want):
        return True
    return any(have.root in roots and want.root in roots for roots in (_NUMBERS, _TIMES, _BYTES))


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, AtomicType) and kind.root in ("CHAR", "VARCHAR")
