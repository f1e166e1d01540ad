"""Values that were read from a metadata file: what is not as the format says is Corrupt, with the name of the file."""

from __future__ import annotations

import struct
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from lakelog.errors import Corrupt, LakelogError

T = TypeVar("T")
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""What parsing raises for bytes that are something else; Arrow's errors are among them."""


_KINDS: dict[type, list[tuple[str, Any]]] = {}


class Readable(Protocol):
    """What files are read from."""

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises NotFound."""


def read_as(io: Readable, path: str, parse: Callable[[bytes], T]) -> T:
    """The value of a file. Raises NotFound, Corrupt naming the file, and what the storage raises."""
    data = io.read(path)
    with sound(path):
        return parse(data)


@contextmanager
def sound(path: str) -> Iterator[None]:
    """Around the parsing of a file. Raises Corrupt naming the file; other errors of ours pass."""
    try:
        yield
    except Corrupt as why:
        raise (why if path in str(why) else Corrupt(f"'{path}': {why}")) from None
    except LakelogError:
        raise
    except _FAULTS as why:
        raise Corrupt(f"'{path}' is not what the format says: {type(why).__name__}: {why}") from None


def offsets_of(data: bytes) -> dict[int, int]:
    """A map bucket → offset from JSON. Raises what ``sound`` makes Corrupt of."""
    return {int(bucket): int(offset) for bucket, offset in orjson.loads(data).items()}


def checked(value: T) -> T:
    """A frozen value, whose fields are of the types that its class declares. Raises Corrupt naming the field."""
    for name, kind in _kinds(type(value)):
        found = getattr(value, name)
        if not _is_a(found, kind):
            raise Corrupt(f"field '{name}' of a {type(value).__name__} is {str(found)[:100]!r}")
    return value


def _kinds(made: type) -> list[tuple[str, Any]]:
    if made not in _KINDS:
        hints = get_type_hints(made)
        _KINDS[made] = [(name, hints[name]) for name in made.__dataclass_fields__]  # type: ignore[attr-defined]
    return _KINDS[made]


def _is_a(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_is_a(value, one) for one in inner)
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return isinstance(value, tuple) and all(_is_a(one, inner[0]) for one in value)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_is_a(k, inner[0]) and _is_a(v, inner[1]) for k, v in value.items())
    if origin is not None or not isinstance(kind, type):
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    return not is_dataclass(value) or checked(value) is value
