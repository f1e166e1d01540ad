"""Checked values of metadata files: a value that violates the format raises Corrupt with the file's name."""

from __future__ import annotations

import functools
import struct
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, Generic, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from lakelog.errors import Corrupt, LakelogError, UnsupportedFeature

T = TypeVar("T")
_MOST_JSON = 16 << 20
"""Bytes of a schema, snapshot, tag or map of offsets. Parsed, they may take twenty times as much."""
FAULTS = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error,
)  # fmt: skip
"""What parsing raises for bytes that are something else; Arrow's errors are among them."""


class FileSource(Protocol):
    """Source of files."""

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises NotFound."""


def read_as(io: FileSource, path: str, parse: Callable[[bytes], T]) -> T:
    """The value of a file. Raises NotFound, Corrupt naming the file, and the errors of the storage."""
    data = io.read(path)
    with parsing(path):
        return parse(data)


class LastRead(Generic[T]):
    """The files that its owner has read last: one whose bytes have not changed is not parsed again.

    Each read reads the file, so a file that another process has replaced is seen. Holds ``most`` values.
    """

    def __init__(self, parse: Callable[[bytes], T], most: int) -> None:
        self._parse, self._most = parse, most
        self._held: OrderedDict[str, tuple[bytes, T]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return LastRead, (self._parse, self._most)

    def read(self, io: FileSource, path: str) -> T:
        """As ``read_as``."""
        data = io.read(path)
        with self._lock:
            entry = self._held.pop(path, None)
        if entry is None or entry[0] != data:
            with parsing(path):
                entry = data, self._parse(data)
        with self._lock:
            self._held[path] = entry
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        return entry[1]


@contextmanager
def parsing(path: str) -> Iterator[None]:
    """Around the parsing of a file. Raises Corrupt naming the file; other errors of ours pass."""
    try:
        yield
    except Corrupt as why:
        raise (why if path in str(why) else Corrupt(f"'{path}': {why}")) from None
    except LakelogError:
        raise
    except FAULTS as why:
        raise Corrupt(f"'{path}' does not match the format: {type(why).__name__}: {why}") from None


def metadata_json(data: bytes) -> Any:
    """The JSON of a metadata file. Raises Corrupt for one that is far larger than any, and JSONDecodeError."""
    if len(data) > _MOST_JSON:
        raise Corrupt(f"it has {len(data):,} bytes, and such a file has at most {_MOST_JSON:,}")
    return orjson.loads(data)


def offsets_of(data: bytes) -> dict[int, int]:
    """A map bucket → offset from JSON. Raises errors that ``parsing`` turns into Corrupt."""
    return {int(bucket): int(offset) for bucket, offset in metadata_json(data).items()}


def check_version(found: object, newest: int, what: str) -> None:
    """Raises UnsupportedFeature for the version of a newer format."""
    if isinstance(found, int) and found > newest:
        raise UnsupportedFeature(
            f"{what} of version {found}: lakelog reads versions up to {newest}; upgrade lakelog, or use another engine"
        )


def checked(value: T) -> T:
    """A frozen value, whose fields are of the types that its class declares. Raises Corrupt naming the field."""
    record: Any = type(value)
    for name, is_valid in _fields(record):
        value_of_field = getattr(value, name)
        if not is_valid(value_of_field):
            raise Corrupt(f"field '{name}' of a {type(value).__name__} is {str(value_of_field)[:100]!r}")
    return value


@functools.cache
def _fields(made: Any) -> list[tuple[str, Callable[[Any], bool]]]:
    """The name of each field and the check of its values."""
    hints = get_type_hints(made)
    return [(name, _check_of(hints[name])) for name in made.__dataclass_fields__]


def _check_of(kind: Any) -> Callable[[Any], bool]:
    """Returns the check of a type; built once per field, because every commit checks the values that it reads."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        *choices, last = (_check_of(one) for one in sorted(inner, key=lambda one: one is not types.NoneType))
        for check in reversed(choices):
            last = _either(check, last)
        return last
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        each = _check_of(inner[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = map(_check_of, inner)
        return lambda value: isinstance(value, Mapping) and all(map(key, value)) and all(map(item, value.values()))
    if origin is not None or not isinstance(kind, type):
        return lambda value: True
    if kind in (int, float):
        numbers = int | float if kind is float else int
        return lambda value: isinstance(value, numbers) and not isinstance(value, bool)
    if is_dataclass(kind):
        return lambda value: isinstance(value, kind) and checked(value) is value
    return lambda value: isinstance(value, kind)


def _either(first: Callable[[Any], bool], second: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: first(value) or second(value)
