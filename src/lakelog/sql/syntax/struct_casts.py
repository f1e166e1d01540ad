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
    EVOLVED = "evolved"
    """By name, and a missing one is NULL or stays, as in a statement WITH SCHEMA EVOLUTION."""


@dataclass(frozen=True)
class _Caster:
    match: FieldMatch
    table: str
    checked: bool

    def text(
        self, value: str, have: DataType, want: DataType, path: str, depth: int = 0, now: str | None = None
    ) -> str:
        """The cast of a value; Spark evaluates ``value`` once. Fields that it lacks are those of ``now``, or NULL."""
        differs = is_time(want) or (self.checked and have.with_nullable(True) != want.with_nullable(True))
        if not differs and not self._reorders(have, want, path):
            return f"CAST(({value}) AS {spark_text(want)})"
        item = f"_lakelog_x{depth}"
        if isinstance(have, ArrayType) and isinstance(want, ArrayType):
            return f"transform({value}, {item} -> {self.text(item, have.element, want.element, path, depth + 1)})"
        if isinstance(have, MapType) and isinstance(want, MapType):
            key = self.text(f"{item}.key", have.key, want.key, path, depth + 1)
            text = self.text(f"{item}.value", have.value, want.value, path, depth + 1)
            return f"map_from_entries(transform(map_entries({value}), {item} -> struct({key}, {text})))"
        if is_time(want):
            return time_sql(value, have, f"column '{path}' of table {self.table}")
        if not isinstance(have, RowType) or not isinstance(want, RowType) or not self._fits(have, want):
            return cast_sql(value, spark_text(want), f"column '{path}' of table {self.table}" if self.checked else None)
        parts = []
        for source, field in zip(self._sources(have, want), want.fields, strict=True):
            old = None if now is None else f"{now}.{quoted_name(field.name)}"
            if source is None:
                missing = old or f"CAST(NULL AS {spark_text(field.type)})"
                parts.append(f"{quoted_text(field.name)}, {missing}")
                continue
            inner = f"{item}.{quoted_name(source.name)}"
            cast = self.text(inner, source.type, field.type, f"{path}.{field.name}", depth + 1, old)
            parts.append(f"{quoted_text(field.name)}, {cast}")
        struct = f"if({item} IS NULL, NULL, named_struct({', '.join(parts)}))"
        return f"element_at(transform(array({value}), {item} -> {struct}), 1)"

    def _fits(self, have: RowType, want: RowType) -> bool:
        """True if each field of a struct has a place in the wanted one."""
        if self.match is FieldMatch.EVOLVED:
            return {f.name.lower() for f in have.fields} <= {f.name.lower() for f in want.fields}
        return len(have.fields) == len(want.fields)

    def _sources(self, have: RowType, want: RowType) -> Sequence[DataField | None]:
        """The field of a struct for each wanted one; None for one that it lacks."""
        by_name = {field.name.lower(): field for field in have.fields}
        names = [field.name.lower() for field in want.fields]
        if self.match is FieldMatch.EVOLVED:
            return [by_name.get(name) for name in names]
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
        sources = [field.name.lower() for field in have.fields]
        targets = [field.name.lower() for field in want.fields]
        if self.match is FieldMatch.EVOLVED and not set(sources) <= set(targets):
            return False
        if self.match is not FieldMatch.EVOLVED and sorted(sources) != sorted(targets):
            if self.match is FieldMatch.NAME:
                raise InvalidSchema(
                    f"struct '{path}' of table {self.table} has the fields {', '.join(f.name for f in want.fields)}, "
                    f"but the query gives {', '.join(f.name for f in have.fields)}: give the fields of the table, "
                    f"each once"
                )
            return False
        by_name = {field.name.lower(): field.type for field in have.fields}
        both = [field for field in want.fields if field.name.lower() in by_name]
        inner = [self._reorders(by_name[f.name.lower()], f.type, f"{path}.{f.name}") for f in both]
        return sources != targets or any(inner)


def cast_text(
    value: str,
    have: DataType,
    want: DataType,
    match: FieldMatch,
    column: str,
    table: str,
    checked: bool = False,
    now: str | None = None,
) -> str:
    """A value of type ``have`` as the type of a column, in Spark SQL; ``checked`` as the field of ``cast_sql``.

    With EVOLVED, fields that the value lacks come from ``now``, the column's own value, or are NULL without it. Raises
    InvalidSchema for structs with other fields, if they are matched by name.
    """
    return _Caster(match, table, checked).text(value, have, want, column, now=now)


def time_sql(value: str, have: DataType, what: str) -> str:
    """A time of day in Spark SQL, where it is the milliseconds of its day: a number is, texts are parsed.

    ``what`` names the column. A time with more digits is an error. Spark evaluates ``value`` once.
    """
    if not isinstance(have, AtomicType) or have.root not in ("CHAR", "VARCHAR", "TIME"):
        return f"CAST(({value}) AS INT)"
    item, day = "_lakelog_v", "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
    moment = f"try_cast(concat('1970-01-01 ', {item}) AS TIMESTAMP_NTZ)"
    micros = f"timestampdiff(MICROSECOND, {day}, {moment})"
    wrong = f"concat({quoted_text(f'{what} is a time of day in milliseconds, which has no value ')}, {item})"
    fits = f"{item} RLIKE '^[0-9:.]+$' AND coalesce({micros} % 1000 = 0, false)"
    one = f"if({item} IS NULL OR ({fits}), CAST({micros} DIV 1000 AS INT), CAST(raise_error({wrong}) AS INT))"
    return f"element_at(transform(array(CAST(({value}) AS STRING)), {item} -> {one}), 1)"


def cast_sql(value: str, kind: str, checked: str | None) -> str:
    """The cast of a value without parts. Spark evaluates ``value`` once.

    A value that does not fit is an error with the name ``checked``. None is for sessions with
    ``spark.sql.ansi.enabled``, in which any cast is checked; in others it wraps numbers, and makes NULL of texts.
    """
    if checked is None:
        return f"CAST(({value}) AS {kind})"
    item = "_lakelog_v"
    cast = f"try_cast({item} AS {kind})"
    wrong = f"concat({quoted_text(f'{checked} is {kind}, which has no value ')}, CAST({item} AS STRING))"
    one = f"if({item} IS NOT NULL AND {cast} IS NULL, CAST(raise_error({wrong}) AS {kind}), {cast})"
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


def is_time(kind: DataType) -> bool:
    """True if the type is a time of day."""
    return isinstance(kind, AtomicType) and kind.root == "TIME"


def has_struct(kind: DataType) -> bool:
    """True if the type is a struct or contains one."""
    if isinstance(kind, RowType):
        return True
    if isinstance(kind, ArrayType):
        return has_struct(kind.element)
    return isinstance(kind, MapType) and (has_struct(kind.key) or has_struct(kind.value))
