"""Avro object container files as lists of plain records: manifests, and the rows of Avro data files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import fastavro

from lakelog.errors import Corrupt

MAGIC: Final = b"Obj\x01"
_SCHEMA_KEY: Final = "avro.schema"
_CODECS: Final = {"zstd": "zstandard", "snappy": "snappy", "none": "null"}

Record = dict[str, Any]


def read_records(data: bytes) -> list[Record]:
    """All records of a container file, as dicts.

    Values come raw: a timestamp, date or time is the number in the file, a decimal its bytes, because a creation
    time is kept as a number and a year may be beyond what Python can say. Raises Corrupt.
    """
    return read_container(data)[1]


def read_container(data: bytes) -> tuple[dict[str, Any], list[Record]]:
    """The writer's schema, with its logical types, and all records. Raises Corrupt."""
    try:
        header, rest = _split_header(data)
        schema = json.loads(header[_SCHEMA_KEY])
        plain = {**header, _SCHEMA_KEY: json.dumps(_without_logical_types(schema)).encode()}
        records: list[Any] = list(fastavro.reader(io.BytesIO(_join_header(plain) + rest)))
    except (ValueError, KeyError, IndexError, EOFError, TypeError, StopIteration, RuntimeError) as why:
        raise Corrupt(f"{len(data)} bytes are not an Avro file: {why!r}") from None
    return schema, records


def write_records(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], compression: str = "zstd") -> bytes:
    """A container file of records; ``compression`` is zstd, snappy or none. Times are given as raw numbers."""
    out = io.BytesIO()
    fastavro.writer(out, dict(schema), records, codec=_CODECS[compression])
    return out.getvalue()


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: _without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    return schema


def _split_header(data: bytes) -> tuple[dict[str, bytes], bytes]:
    """The metadata map of a container file, and what follows it (sync marker and blocks)."""
    if data[:4] != MAGIC:
        raise Corrupt("not an Avro file: it does not begin with 'Obj' 1")
    header: dict[str, bytes] = {}
    count, at = _read_long(data, 4)
    while count:
        if count < 0:
            # a negative count says that the size of the block follows
            count = -count
            _, at = _read_long(data, at)
        for _ in range(count):
            key, at = _read_bytes(data, at)
            header[key.decode()], at = _read_bytes(data, at)
        count, at = _read_long(data, at)
    return header, data[at:]


def _join_header(header: Mapping[str, bytes]) -> bytes:
    parts = [MAGIC, _long(len(header))]
    for key, value in header.items():
        parts += [_long(len(key.encode())), key.encode(), _long(len(value)), value]
    return b"".join((*parts, _long(0)))


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(data, at)
    if length < 0 or at + length > len(data):
        raise Corrupt(f"not an Avro file: {length} bytes at {at} of {len(data)}")
    return data[at : at + length], at + length


def _long(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
