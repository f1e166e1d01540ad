"""Records of metadata files: frozen dataclasses that are stored as JSON objects."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from enum import EnumType
from typing import Any, ClassVar, Final, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from lakelog.errors import Corrupt
from lakelog.paimon.types.checked_values import FAULTS, checked, metadata_json

T = TypeVar("T")
_KEY, _OPTIONAL = "key", "optional"
OPTIONAL: Final = {_OPTIONAL: True}
"""Metadata of a field that is left out while it has its default."""


def stored_as(key: str, optional: bool = False) -> Mapping[str, Any]:
    """Metadata of a field that is stored under another key than its name."""
    return {_KEY: key, _OPTIONAL: optional}


class JsonRecord:
    """Base of dataclasses that are stored as JSON objects, their fields in the order of the class.

    Maps with whole numbers as keys, such as bucket → offset, are stored in the order of these, as texts. Null is read
    like a missing key, and unknown keys are ignored. A class ``of_paimon`` is stored as Paimon does: indented, without
    fields that are None, and with keys such as ``schemaId``.
    """

    _of_paimon: ClassVar[bool] = False

    def __init_subclass__(cls, of_paimon: bool = False) -> None:
        super().__init_subclass__()
        cls._of_paimon = of_paimon

    def to_values(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field in self._fields():
            value = getattr(self, field.name)
            if not field.is_optional or value != field.default:
                out[field.key] = None if value is None else field.write(value)
        return out

    def to_json(self) -> bytes:
        return orjson.dumps(self.to_values(), option=orjson.OPT_INDENT_2 if self._of_paimon else None)

    @classmethod
    def _fields(cls) -> list[_Field]:
        record: Any = cls
        return _fields(record)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """The reverse of ``to_values``. Raises Corrupt for a missing key or a value of another type."""
        try:
            return checked(cls(**{field.name: field.value_in(values) for field in cls._fields()}))
        except FAULTS as why:
            raise Corrupt(f"it is not a {cls.__name__}: {type(why).__name__}: {why}") from None

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The reverse of ``to_json``. Raises Corrupt."""
        try:
            values = metadata_json(data)
        except ValueError as why:
            raise Corrupt(f"it is not a {cls.__name__}: {why}") from None
        return cls.from_values(values)


def text_keys(offsets: Mapping[int, T]) -> dict[str, T]:
    """A map such as bucket → offset as JSON has it, ordered by its keys."""
    return {str(key): value for key, value in sorted(offsets.items())}


def int_keys(values: Mapping[str, T]) -> dict[int, T]:
    """The reverse of ``text_keys``."""
    return {int(key): value for key, value in values.items()}


_Convert = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    key: str
    read: _Convert
    write: _Convert
    default: Any
    is_optional: bool

    def value_in(self, values: Mapping[str, Any]) -> Any:
        value = values.get(self.key)
        if value is None and self.default is dataclasses.MISSING:
            raise KeyError(self.key)
        return self.default if value is None else self.read(value)


@functools.cache
def _fields(record: Any) -> list[_Field]:
    hints = get_type_hints(record)
    out = []
    for field in dataclasses.fields(record):
        kind, default = hints[field.name], field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        elif default is dataclasses.MISSING and type(None) in get_args(kind):
            default = None
        key = field.metadata.get(_KEY) or (_camel_case(field.name) if record._of_paimon else field.name)
        is_optional = field.metadata.get(_OPTIONAL) or (record._of_paimon and default is None)
        out.append(_Field(field.name, key, *_converts(kind), default, is_optional))
    return out


def _converts(kind: Any) -> tuple[_Convert, _Convert]:
    """The functions that read a value of a type from JSON, and that make its JSON."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # with None, which has no value
        return _converts(next(one for one in inner if one is not type(None)))
    if origin in (tuple, list):
        read, write = _converts(inner[0])
        return (lambda values: origin(map(read, values))), lambda values: list(map(write, values))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        (read, write), is_numbered = _converts(inner[1]), inner[0] is int
        of_text, to_text = (int_keys, text_keys) if is_numbered else (dict, dict)
        return (
            lambda values: of_text({key: read(value) for key, value in values.items()}),
            lambda values: to_text({key: write(value) for key, value in values.items()}),
        )
    if isinstance(kind, type) and issubclass(kind, JsonRecord):
        return kind.from_values, kind.to_values
    return (kind if isinstance(kind, EnumType) else _same), _same


def _same(value: Any) -> Any:
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
