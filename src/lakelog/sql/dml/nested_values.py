"""New values of nested columns in UPDATE and MERGE, with the fields of structs by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.dml.row_changes import Clause
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_text, has_struct, is_time


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

    ``kept`` names the target in those clauses, by position, that keep the fields which a new value lacks.
    ``relation`` is the FROM of a query in which all values have a meaning; it is only analysed.
    """
    types = {field.name: field.type for field in schema.fields if has_struct(field.type) or is_time(field.type)}
    found = [(at, name, value) for at, c in enumerate(clauses) for name, value in c.values.items() if name in types]
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
    return [replace(c, values=values) for c, values in zip(clauses, new, strict=True)]
