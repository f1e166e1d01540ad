"""Column types of the file format and their text form in schema files (format sheet 3.1)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from lakelog.errors import InvalidSchema, UnsupportedFeature

T = TypeVar("T", bound="DataType")
MAX_LENGTH: Final = 2147483647
"""The length that turns VARCHAR into STRING and VARBINARY into BYTES."""
_LENGTHS: Final = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_TIMES: Final = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
_PLAIN: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "VARIANT", "BLOB")
_SYNONYMS: Final = {
    "INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "DOUBLE PRECISION": "DOUBLE",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMP_LTZ", "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIME WITHOUT TIME ZONE": "TIME",
}  # fmt: skip
_TEXT = re.compile(
    r"\s*(?P<name>[A-Z_]+(?: PRECISION)?)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<zone> WITH LOCAL TIME ZONE| WITHOUT TIME ZONE)?(?P<null> NOT NULL| NULL)?\s*"
)


class DataType(ABC):
    """A column type; nullable or not. Values compare by meaning, so ``STRING`` equals ``VARCHAR(2147483647)``."""

    nullable: bool

    @abstractmethod
    def to_json(self) -> str | dict[str, Any]:
        """The value of ``type`` in a schema file: text for an atomic type, an object for a nested one."""

    def with_nullable(self: T, nullable: bool) -> T:
        """The same type, nullable or NOT NULL."""
        return self if self.nullable == nullable else cast("T", replace(cast("Any", self), nullable=nullable))

    def _with_nullability(self, word: str) -> str:
        return word if self.nullable else f"{word} NOT NULL"


@dataclass(frozen=True)
class AtomicType(DataType):
    """A type without parts. ``root`` is upper case: ``INT``, ``VARCHAR``, ``TIMESTAMP_LTZ`` …

    ``length`` (characters or bytes) belongs to CHAR, VARCHAR, BINARY, VARBINARY; ``precision`` to DECIMAL, TIME,
    TIMESTAMP, TIMESTAMP_LTZ (digits of the fraction of a second); ``scale`` to DECIMAL. Missing ones take the format's
    defaults. Raises InvalidSchema for a parameter out of range, UnsupportedFeature for an unknown root.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        if self.root in _LENGTHS:
            self._default("length", 1)
            self._check("length", 1, MAX_LENGTH)
        elif self.root == "DECIMAL":
            self._default("precision", 10)
            self._default("scale", 0)
            self._check("precision", 1, 38)
            self._check("scale", 0, self.precision or 0)
        elif self.root in _TIMES:
            self._default("precision", _TIMES[self.root])
            self._check("precision", 0, 9)
        elif self.root not in _PLAIN:
            raise UnsupportedFeature(
                f"unknown column type '{self.root}': use one of {', '.join((*_PLAIN, *_LENGTHS, 'DECIMAL', *_TIMES))}"
            )

    def _default(self, name: str, value: int) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def _check(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not low <= value <= high:
            raise InvalidSchema(f"{name} {value} of type {self.root} must be between {low} and {high}")

    def to_json(self) -> str:
        """``'INT NOT NULL'``, ``'DECIMAL(10, 2)'``, ``'TIMESTAMP(3) WITH LOCAL TIME ZONE'``."""
        if self.root == "VARCHAR" and self.length == MAX_LENGTH:
            return self._with_nullability("STRING")
        if self.root == "VARBINARY" and self.length == MAX_LENGTH:
            return self._with_nullability("BYTES")
        if self.root in _LENGTHS:
            return self._with_nullability(f"{self.root}({self.length})")
        if self.root == "DECIMAL":
            return self._with_nullability(f"DECIMAL({self.precision}, {self.scale})")
        if self.root == "TIMESTAMP_LTZ":
            return self._with_nullability(f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE")
        return self._with_nullability(f"{self.root}({self.precision})" if self.root in _TIMES else self.root)


@dataclass(frozen=True)
class DataField:
    """A column, or a part of a ROW: its id never changes and is never used again."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The object in ``fields`` of a schema file; absent parts are omitted."""
        out: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            out["description"] = self.description
        if self.default_value is not None:
            out["defaultValue"] = self.default_value
        return out


@dataclass(frozen=True)
class ArrayType(DataType):
    """A list of one element type."""

    element: DataType
    nullable: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"type": self._with_nullability("ARRAY"), "element": self.element.to_json()}


@dataclass(frozen=True)
class MultisetType(DataType):
    """A bag: element → how often."""

    element: DataType
    nullable: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"type": self._with_nullability("MULTISET"), "element": self.element.to_json()}


@dataclass(frozen=True)
class MapType(DataType):
    """Keys and their values."""

    key: DataType
    value: DataType
    nullable: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"type": self._with_nullability("MAP"), "key": self.key.to_json(), "value": self.value.to_json()}


@dataclass(frozen=True)
class RowType(DataType):
    """A row inside a row; its fields have ids of their own."""

    fields: tuple[DataField, ...]
    nullable: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"type": self._with_nullability("ROW"), "fields": [f.to_json() for f in self.fields]}


@dataclass(frozen=True)
class VectorType(DataType):
    """A list of fixed length."""

    element: DataType
    length: int
    nullable: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"type": self._with_nullability("VECTOR"), "element": self.element.to_json(), "length": self.length}


def is_text(kind: DataType | None) -> bool:
    """True for CHAR and VARCHAR, which STRING is."""
    return isinstance(kind, AtomicType) and kind.root in ("CHAR", "VARCHAR")


def is_ordered(kind: DataType) -> bool:
    """True for the types whose values have an order: all atomic ones except VARIANT and BLOB."""
    return isinstance(kind, AtomicType) and kind.root not in ("VARIANT", "BLOB")


STRING: Final = AtomicType("VARCHAR", length=MAX_LENGTH)
BYTES: Final = AtomicType("VARBINARY", length=MAX_LENGTH)
INT: Final = AtomicType("INT")
BIGINT: Final = AtomicType("BIGINT")


def parse_type(value: Any) -> DataType:
    """Reads a type as a schema file holds it: text or object.

    Raises InvalidSchema for text that is not a type, UnsupportedFeature for a type that lakelog does not know.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise InvalidSchema(f"not a column type: {value!r}")
    word, _, null = value["type"].partition(" ")
    nullable = null.strip() != "NOT NULL"
    try:
        if word == "ARRAY":
            return ArrayType(parse_type(value["element"]), nullable)
        if word == "MULTISET":
            return MultisetType(parse_type(value["element"]), nullable)
        if word == "MAP":
            return MapType(parse_type(value["key"]), parse_type(value["value"]), nullable)
        if word == "VECTOR":
            return VectorType(parse_type(value["element"]), int(value["length"]), nullable)
        if word == "ROW":
            return RowType(tuple(parse_field(f) for f in value["fields"]), nullable)
    except KeyError as missing:
        raise InvalidSchema(f"type {word} has no {missing} in {value!r}") from None
    raise UnsupportedFeature(f"unknown nested type '{word}': use ARRAY, MAP, ROW, MULTISET or VECTOR")


def parse_field(value: Mapping[str, Any]) -> DataField:
    """Reads one field object of a schema file. Raises InvalidSchema, UnsupportedFeature."""
    try:
        kind = parse_type(value["type"])
        return DataField(int(value["id"]), value["name"], kind, value.get("description"), value.get("defaultValue"))
    except KeyError as missing:
        raise InvalidSchema(f"a column has no {missing}: {value!r}") from None


def nested_fields(kind: DataType) -> Iterator[DataField]:
    """Every ROW field at any depth inside a type, outer before inner."""
    if isinstance(kind, RowType):
        for field in kind.fields:
            yield field
            yield from nested_fields(field.type)
    elif isinstance(kind, ArrayType | MultisetType | VectorType):
        yield from nested_fields(kind.element)
    elif isinstance(kind, MapType):
        yield from nested_fields(kind.key)
        yield from nested_fields(kind.value)


def _parse_text(text: str) -> AtomicType:
    match = _TEXT.fullmatch(text.upper())
    if match is None:
        raise InvalidSchema(f"not a column type: '{text}' (write 'INT', 'DECIMAL(10, 2)', 'STRING NOT NULL' …)")
    name = match["name"].strip()
    root = _SYNONYMS.get(name + (match["zone"] or ""), name)
    nullable = match["null"] != " NOT NULL"
    first = int(match["first"]) if match["first"] else None
    second = int(match["second"]) if match["second"] else None
    if root in ("STRING", "BYTES"):
        return AtomicType("VARCHAR" if root == "STRING" else "VARBINARY", nullable, length=MAX_LENGTH)
    if root in _LENGTHS:
        return AtomicType(root, nullable, length=first)
    if root in ("DECIMAL", *_TIMES):
        return AtomicType(root, nullable, precision=first, scale=second)
    if first is not None:
        raise InvalidSchema(f"type {root} has no parameter: '{text}'")
    return AtomicType(root, nullable)


def type_keyword(kind: DataType) -> str:
    """The type for messages; only the keyword of a nested one."""
    text = kind.to_json()
    return text if isinstance(text, str) else str(text["type"])


def type_text(kind: DataType) -> str:
    """``INT NOT NULL``, ``MAP<STRING, INT>``, ``ROW<`a` INT>``."""
    suffix = "" if kind.nullable else " NOT NULL"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_text(kind.element)}>{suffix}"
    if isinstance(kind, MultisetType):
        return f"MULTISET<{type_text(kind.element)}>{suffix}"
    if isinstance(kind, MapType):
        return f"MAP<{type_text(kind.key)}, {type_text(kind.value)}>{suffix}"
    if isinstance(kind, VectorType):
        return f"VECTOR<{type_text(kind.element)}, {kind.length}>{suffix}"
    if isinstance(kind, RowType):
        fields = ", ".join(f"`{f.name}` {type_text(f.type)}" for f in kind.fields)
        return f"ROW<{fields}>{suffix}"
    return str(kind.to_json())
