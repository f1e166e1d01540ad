"""Casts of nested values whose structs have their fields in another order than the table, as SQL text."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from lakelog.sql.syntax.lexer import quoted_name, quoted_text
from lakelog.sql.syntax.type_parser import type_text


class FieldMatch(enum.Enum):
    """Rule that finds the value of each field of a struct."""

    POSITION = "position"
    """By position, as in INSERT … SELECT."""
    SAME_NAMES = "same names"
    """By name if both structs have the same names, else by position; as in UPDATE and MERGE."""
    NAME = "name"
    """By name, as in INSERT … BY NAME."""


@dataclass(frozen=True)
class _Caster:
    match: FieldMatch
    table: str
    checked: bool

    def text(self, value: str, have: DataType, want: DataType, path: str, depth: int = 0) -> str:
        """The cast of a value; Spark evaluates ``value`` once."""
        differs = self.checked and have.with_nullable(True) != want.with_nullable(True)
        if not differs and not self._reorders(have, want, path):
            return f"CAST(({value}) AS {spark_text(want)})"
        item = f"_lakelog_x{depth}"
        if isinstance(have, ArrayType) and isinstance(want, ArrayType):
            return f"transform({value}, {item} -> {self.text(item, have.element, want.element, path, depth + 1)})"
        if isinstance(have, MapType) and isinstance(want, MapType):
            key = self.text(f"{item}.key", have.key, want.key, path, depth + 1)
            found = self.text(f"{item}.value", have.value, want.value, path, depth + 1)
            return f"map_from_entries(transform(map_entries({value}), {item} -> struct({key}, {found})))"
        if not isinstance(have, RowType) or not isinstance(want, RowType) or len(have.fields) != len(want.fields):
            return cast_sql(value, spark_text(want), f"column '{path}' of table {self.table}" if self.checked else None)
        parts = []
        for own, field in zip(self._sources(have, want), want.fields, strict=True):
            inner = f"{item}.{quoted_name(own.name)}"
            cast = self.text(inner, own.type, field.type, f"{path}.{field.name}", depth + 1)
            parts.append(f"{quoted_text(field.name)}, {cast}")
        struct = f"if({item} IS NULL, NULL, named_struct({', '.join(parts)}))"
        return f"element_at(transform(array({value}), {item} -> {struct}), 1)"

    def _sources(self, have: RowType, want: RowType) -> Sequence[DataField]:
        """The field of a struct for each wanted one."""
        by_name = {field.name.lower(): field for field in have.fields}
        names = [field.name.lower() for field in want.fields]
        if self.match is FieldMatch.POSITION or set(by_name) != set(names):
            return have.fields
        return [by_name[name] for name in names]

    def _reorders(self, have: DataType, want: DataType, path: str) -> bool:
        """True if a struct inside has its fields by name, in another order. Raises InvalidSchema."""
        if isinstance(have, ArrayType) and isinstance(want, ArrayType):
            return self._reorders(have.element, want.element, path)
        if isinstance(have, MapType) and isinstance(want, MapType):
            return self._reorders(have.key, want.key, path) or self._reorders(have.value, want.value, path)
        if not isinstance(have, RowType) or not isinstance(want, RowType) or self.match is FieldMatch.POSITION:
            return False
        given = [field.name.lower() for field in have.fields]
        own = [field.name.lower() for field in want.fields]
        if sorted(given) != sorted(own):
            if self.match is FieldMatch.NAME:
                raise InvalidSchema(
                    f"struct '{path}' of table {self.table} has the fields {', '.join(f.name for f in want.fields)}, "
                    f"but the query gives {', '.join(f.name for f in have.fields)}: give the fields of the table, "
                    f"each once"
                )
            return False
        by_name = {field.name.lower(): field.type for field in have.fields}
        inner = [self._reorders(by_name[f.name.lower()], f.type, f"{path}.{f.name}") for f in want.fields]
        return given != own or any(inner)


def cast_text(
    value: str, have: DataType, want: DataType, match: FieldMatch, column: str, table: str, checked: bool = False
) -> str:
    """A value of type ``have`` as the type of a column, in Spark SQL; ``checked`` as the field of ``cast_sql``.

    Raises InvalidSchema for structs with other fields, if they are matched by name.
    """
    return _Caster(match, table, checked).text(value, have, want, column)


def cast_sql(value: str, kind: str, checked: str | None) -> str:
    """The cast of a value without parts. Spark evaluates ``value`` once.

    A value that does not fit is an error with the name ``checked``. None is for sessions with
    ``spark.sql.ansi.enabled``, in which any cast is checked; in others it wraps numbers, and makes NULL of texts.
    """
    if checked is None:
        return f"CAST(({value}) AS {kind})"
    item = "_lakelog_v"
    found = f"try_cast({item} AS {kind})"
    wrong = f"concat({quoted_text(f'{checked} is {kind}, which has no value ')}, CAST({item} AS STRING))"
    one = f"if({item} IS NOT NULL AND {found} IS NULL, CAST(raise_error({wrong}) AS {kind}), {found})"
    return f"element_at(transform(array({value}), {item} -> {one}), 1)"


def spark_text(kind: DataType) -> str:
    """The type as Spark has it in its SQL: times of day are numbers, vectors are arrays."""
    return type_text(_of_spark(kind))


def _of_spark(kind: DataType) -> DataType:
    if isinstance(kind, AtomicType) and kind.root == "TIME":
        return AtomicType("INT")
    if isinstance(kind, (ArrayType, VectorType)):
        return ArrayType(_of_spark(kind.element))
    if isinstance(kind, MapType):
        return MapType(_of_spark(kind.key), _of_spark(kind.value))
    if isinstance(kind, MultisetType):
        return MapType(_of_spark(kind.element), AtomicType("INT"))
    if isinstance(kind, RowType):
        return RowType(tuple(replace(f, type=_of_spark(f.type), description=None) for f in kind.fields))
    return kind.with_nullable(True)


def has_struct(kind: DataType) -> bool:
    """True if the type is a struct or contains one."""
    if isinstance(kind, RowType):
        return True
    if isinstance(kind, ArrayType):
        return has_struct(kind.element)
    return isinstance(kind, MapType) and (has_struct(kind.key) or has_struct(kind.value))
