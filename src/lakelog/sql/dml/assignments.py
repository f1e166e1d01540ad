"""Assignments of UPDATE and MERGE: ``column = value``, for whole columns and parts of structs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.defaults import default_text, is_nested
from lakelog.paimon.types.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    is_text,
)
from lakelog.sql.dml.row_changes import Clause
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.syntax.fragments import DmlTarget, is_default, read_fragment
from lakelog.sql.syntax.lexer import quoted_name, quoted_text
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_text, has_struct, is_time, spark_text
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.sql.syntax.type_parser import type_text

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
        return type(have) is type(want) or isinstance(want, VectorType | MultisetType) or is_text(have)
    if have.root == want.root or is_text(have) or is_text(want):
        return True
    return any(have.root in roots and want.root in roots for roots in (_NUMBERS, _TIMES, _BYTES))


Path = tuple[str, ...]
"""A column, ``("a",)``, or a part of one, ``("info", "a")``, as written."""


def read_assignments(cursor: TokenStream, target: DmlTarget, *stops: str) -> dict[Path, str]:
    """Reads ``column = expression, …`` as path → text of the value; the target's name may prefix a path."""
    out: dict[Path, str] = {}
    while True:
        start_token = cursor.peek()
        path = read_path(cursor, target)
        if any(_overlap(path, other) for other in out):
            cursor.fail(f"column '{'.'.join(path)}' is set twice", start_token)
        cursor.expect_symbol("=", f" after column '{'.'.join(path)}'")
        out[path] = read_fragment(cursor, f"a value for column '{'.'.join(path)}'", *stops, comma=True)
        if not cursor.accept_symbol(","):
            return out


def read_path(cursor: TokenStream, target: DmlTarget) -> Path:
    """Reads a column or a part of one; the target's name may prefix it."""
    parts = [cursor.name_part("a column")]
    while cursor.accept_symbol("."):
        parts.append(cursor.name_part("a column"))
    return _without_table(tuple(parts), target)


def own_values(schema: TableSchema, table: DmlTarget, values: Mapping[Path, str]) -> dict[str, str]:
    """Assignments as new values of whole columns, in the table's spelling, with DEFAULT resolved to the default.

    Raises InvalidSchema for an unknown column or part of one.
    """
    out: dict[str, str] = {}
    for path, value in values.items():
        field = _field(schema.fields, path[:1], table)
        if len(path) == 1:
            out[field.name] = default_value(field) if is_default(value) else value
        elif field.name not in out:
            inside = {p[1:]: v for p, v in values.items() if p[0].lower() == path[0].lower()}
            out[field.name] = _struct(field, f"{quoted_name(table.alias)}.{quoted_name(field.name)}", inside, table)
    return out


def default_value(column: DataField) -> str:
    """The default of a column as SQL text, to be cast to its type; NULL without one."""
    text = default_text(column)
    return "NULL" if text is None else text if is_nested(column.type) else quoted_text(text)


def default_sql(column: DataField) -> str:
    """The default of a column as SQL of its type, among other values; NULL without one."""
    text = default_text(column)
    if text is None or is_text(column.type):
        return default_value(column)
    if text.lower() in ("true", "false") or re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    return f"CAST({default_value(column)} AS {type_text(column.type.with_nullable(True))})"


def _without_table(path: Path, target: DmlTarget) -> Path:
    own = tuple(part.lower() for part in target.name.parts)
    for front in (own, own[-2:], own[-1:], (target.alias.lower(),)):
        if len(path) > len(front) and tuple(part.lower() for part in path[: len(front)]) == front:
            return path[len(front) :]
    return path


def _overlap(one: Path, other: Path) -> bool:
    return all(a.lower() == b.lower() for a, b in zip(one, other, strict=False))


def _field(fields: tuple[DataField, ...], path: Path, table: DmlTarget) -> DataField:
    found = next((field for field in fields if field.name.lower() == path[-1].lower()), None)
    if found is None:
        names = [field.name for field in fields]
        near = did_you_mean(path[-1], names) or "."
        where = f"table '{table.name}'" if len(path) == 1 else f"column '{'.'.join(path[:-1])}' of table '{table.name}'"
        known = "Its columns" if len(path) == 1 else "Its parts"
        what = "column" if len(path) == 1 else "part"
        raise InvalidSchema(f"{where} has no {what} '{path[-1]}'{near} {known}: {', '.join(names)}")
    return found


def _struct(field: DataField, now: str, values: Mapping[Path, str], table: DmlTarget, above: Path = ()) -> str:
    """The struct of a column with new values of some parts; the others come from the current struct ``now``."""
    path = (*above, field.name)
    if not isinstance(field.type, RowType):
        raise InvalidSchema(f"column '{'.'.join(path)}' of table '{table.name}' is not a struct: set the whole column")
    for inner in values:
        _field(field.type.fields, (*path, inner[0]), table)
    parts = []
    for part in field.type.fields:
        inside = {p[1:]: v for p, v in values.items() if p[0].lower() == part.name.lower()}
        old = f"{now}.{quoted_name(part.name)}"
        if not inside:
            value = old
        elif () in inside:
            text = "NULL" if is_default(inside[()]) else inside[()]
            value = f"CAST(({text}) AS {type_text(part.type)})"
        else:
            value = _struct(part, old, inside, table, path)
        parts.append(f"{quoted_text(part.name)}, {value}")
    return f"named_struct({', '.join(parts)})"
