"""What Arrow IPC messages unpack to, read from their heads before anything is unpacked.

A message says how many rows it has, and a compressed buffer how many bytes it becomes. So a message of a few kilobytes
that would take gigabytes is refused at the cost of its head. Source: Arrow's columnar format, "Serialization and
Interprocess Communication", and ``Message.fbs``; flatbuffers are read as far as needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

MIB: Final = 1 << 20
_MARK: Final = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_DICTIONARY_DATA: Final = 1
_PAIR: Final = struct.Struct("<qq")
_FILE_END: Final = b"ARROW1"
_FILE_BATCHES: Final = 3
_BLOCK: Final = struct.Struct("<qi4xq")
_BITS: Final = 8
"""A value of any supported type takes at least a bit."""


@dataclass(frozen=True)
class UnpackLimit:
    """The most that messages unpack to: ``rows`` a message, and ``size`` or ``ratio`` times their size in total."""

    rows: int
    size: int
    ratio: int = 1

    def check(self, data: pa.Buffer | bytes) -> None:
        """Raises ArrowInvalid for messages that would become more, or whose heads cannot be read."""
        most = max(len(data), min(self.size, max(MIB, self.ratio * len(data))))
        taken = 0
        try:
            for rows, values, size in _unpacked(memoryview(data).cast("B")):
                taken += size
                if rows > self.rows:
                    raise pa.ArrowInvalid(f"it has {rows} rows, and at most {self.rows} are read at once")
                if taken > most or values > most * _BITS:
                    raise pa.ArrowInvalid(
                        f"its {len(data)} bytes would unpack to {max(taken, values // _BITS)}, and at most {most} are "
                        "read"
                    )
        except (struct.error, IndexError, ValueError) as wrong:
            if isinstance(wrong, pa.ArrowInvalid):
                raise
            raise pa.ArrowInvalid(f"it is no Arrow message: {wrong}") from wrong


STAGED_ROWS: Final = UnpackLimit(rows=1 << 31, size=256 * MIB, ratio=1 << 12)
"""Rows that wait in a decided epoch: a small run, compressed with lz4 (``table/runs``), however well it compresses."""


class MessageFile:
    """An Arrow IPC file whose batches are checked before they are unpacked. Raises ArrowInvalid."""

    def __init__(self, source: pa.NativeFile, limit: UnpackLimit) -> None:
        self._source, self._limit = source, limit
        self._schema = pa.ipc.open_file(source).schema
        check_plain(self._schema)
        self._blocks = _batches_of(source)

    def batch(self, number: int) -> pa.RecordBatch:
        """A batch by its number."""
        if not 0 <= number < len(self._blocks):
            raise pa.ArrowInvalid(f"it has {len(self._blocks)} batches, and no batch {number}")
        at, head, body = self._blocks[number]
        if min(at, head, body) < 0 or head + body > self._source.size():
            raise pa.ArrowInvalid(f"batch {number} lies outside of it")
        data = pa.py_buffer(self._source.read_at(head + body, at))
        self._limit.check(data)
        return pa.ipc.read_record_batch(data, self._schema)


def _batches_of(source: pa.NativeFile) -> list[tuple[int, int, int]]:
    """Place, head and body of each batch, from the footer of a file."""
    end = source.size() - len(_FILE_END) - 4
    try:
        (size,) = struct.unpack("<i", source.read_at(4, max(0, end)))
        place = _Head(memoryview(source.read_at(size, max(0, end - size)))).vector(_FILE_BATCHES, _BLOCK.size)
        return list(_BLOCK.iter_unpack(place))
    except (struct.error, IndexError, ValueError) as wrong:
        raise pa.ArrowInvalid(f"it is no Arrow file: {wrong}") from wrong


def check_plain(schema: pa.Schema) -> None:
    """Raises ArrowInvalid for columns whose values take no room of their own, but do once they are copied."""
    for field in schema:
        _check_plain(field.type, field.name)


def _check_plain(kind: pa.DataType, column: str) -> None:
    types = pa.types
    is_shared = types.is_null(kind) or types.is_dictionary(kind) or types.is_run_end_encoded(kind)
    is_view = types.is_string_view(kind) or types.is_binary_view(kind)
    is_view = is_view or types.is_list_view(kind) or types.is_large_list_view(kind)
    if is_shared or is_view or types.is_union(kind):
        raise pa.ArrowInvalid(f"column '{column}' is {kind}, and messages have plain columns only")
    if types.is_nested(kind):
        for number in range(kind.num_fields):
            _check_plain(kind.field(number).type, column)


def _unpacked(data: memoryview) -> list[tuple[int, int, int]]:
    """Rows, values of all columns, and bytes of the unpacked buffers of each message with data."""
    found, at = [], 0
    while at + len(_MARK) < len(data):
        at += len(_MARK) if bytes(data[at : at + 4]) == _MARK else 0
        (size,) = struct.unpack_from("<i", data, at)
        if size == 0:
            break
        if size < 0:
            raise ValueError("a message has a negative length")
        message = _Head(data[at + 4 : at + 4 + size])
        at += 4 + size
        body = message.number(_BODY_LENGTH, "<q")
        if not 0 <= body <= len(data) - at:
            raise ValueError("a message is longer than its bytes")
        kind = message.number(_HEADER_TYPE, "<B")
        if kind in (_BATCH, _DICTIONARY):
            head = message.table(_HEADER)
            if head is not None and kind == _DICTIONARY:
                head = head.table(_DICTIONARY_DATA)
            if head is not None:
                found.append(_sizes(head, data[at : at + body]))
        at += body
    return found


def _sizes(head: _Head, body: memoryview) -> tuple[int, int, int]:
    rows = head.number(_LENGTH, "<q")
    nodes, buffers = head.pairs(_NODES), head.pairs(_BUFFERS)
    is_packed = head.table(_COMPRESSION) is not None
    if rows < 0 or any(length < 0 for length, _ in nodes):
        raise ValueError("a message has a negative number of rows")
    size = 0
    for at, length in buffers:
        if at < 0 or length < 0 or at + length > len(body):
            raise ValueError("a buffer lies outside of its message")
        plain = struct.unpack_from("<q", body, at)[0] if is_packed and length else length
        if plain < -1:
            raise ValueError("a buffer has a negative length")
        size += length if plain == -1 else plain
    return rows, sum(length for length, _ in nodes), size


class _Head:
    """A table of a flatbuffer."""

    def __init__(self, data: memoryview, at: int | None = None) -> None:
        self._data = data
        self._at: int = struct.unpack_from("<I", data, 0)[0] if at is None else at
        self._fields = self._at - struct.unpack_from("<i", data, self._at)[0]
        if self._fields < 0:
            raise ValueError("a message is damaged")

    def _place(self, field: int) -> int | None:
        """The place of a field; None if it has its default."""
        entry = 4 + 2 * field
        if entry + 2 > struct.unpack_from("<H", self._data, self._fields)[0]:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._fields + entry)
        return self._at + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """A number; 0 if it is not there."""
        place = self._place(field)
        return 0 if place is None else int(struct.unpack_from(form, self._data, place)[0])

    def table(self, field: int) -> _Head | None:
        """A table; None if it is not there."""
        place = self._place(field)
        if place is None:
            return None
        return _Head(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of two numbers each."""
        return list(_PAIR.iter_unpack(self.vector(field, _PAIR.size)))

    def vector(self, field: int, size: int) -> memoryview:
        """The bytes of a vector whose items have a size."""
        place = self._place(field)
        if place is None:
            return self._data[:0]
        start = place + struct.unpack_from("<I", self._data, place)[0]
        (count,) = struct.unpack_from("<I", self._data, start)
        part = self._data[start + 4 : start + 4 + count * size]
        if len(part) != count * size:
            raise ValueError("a message is damaged")
        return part
