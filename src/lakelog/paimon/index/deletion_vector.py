"""Deletion vectors: which rows of a data file are deleted, as bytes of an index file (format sheet 10)."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from lakelog.errors import Corrupt, UnsupportedFeature

Positions = npt.NDArray[np.int64]
"""Row positions in a data file, from 0, ascending."""

FILE_VERSION: Final = 1
"""The first byte of an index file of deletion vectors."""

_KINDS: Final[dict[bytes, Any]] = {struct.pack(">i", 1581511376): BitMap, struct.pack("<i", 1681511377): BitMap64}
"""Magic number → bitmap; the latter's portable form is the rest of the payload."""
_MAGIC: Final[dict[Any, bytes]] = {kind: magic for magic, kind in _KINDS.items()}
_MOST_POSITIONS: Final = 1 << 25
_MOST_RATIO: Final = 64
"""A longer vector may have as many rows for each of its bytes."""
_INT: Final = struct.Struct(">i")
_CHECKSUM: Final = struct.Struct(">I")


def encode_vector(deleted: Positions, wide: bool = False) -> bytes:
    """The reverse of ``decode_vector``: size, payload and checksum; ``wide`` for the kind of 64 bits.

    Raises UnsupportedFeature for more rows than a reader takes into memory.
    """
    if len(deleted) > _MOST_POSITIONS:
        raise UnsupportedFeature(
            f"{len(deleted)} rows of one data file are deleted, and its deletion vector has at most {_MOST_POSITIONS}: "
            "compact the table, which rewrites the file"
        )
    kind = BitMap64 if wide else BitMap
    payload = _MAGIC[kind] + kind(deleted).serialize()
    return _INT.pack(len(payload)) + payload + _CHECKSUM.pack(zlib.crc32(payload))


def length_in_manifest(vector: bytes) -> int:
    """The length of an encoded vector in an index manifest: all of a 64-bit vector, the payload of a 32-bit one."""
    is_wide = vector[_INT.size : 2 * _INT.size] == _MAGIC[BitMap64]
    return len(vector) if is_wide else len(vector) - _INT.size - _CHECKSUM.size


def decode_vector(data: bytes) -> Positions:
    """The deleted positions of one vector; ``data`` is its size, payload and checksum.

    Their magic numbers identify the two kinds: 32-bit positions in one bitmap, or 64-bit positions in many. Raises
    Corrupt when size, checksum or bitmap do not fit, UnsupportedFeature for another magic number.
    """
    payload = data[_INT.size : -_CHECKSUM.size]
    if len(data) < 3 * _INT.size or _INT.unpack_from(data)[0] != len(payload):
        raise Corrupt(f"a deletion vector has {len(data)} bytes, which is not the size in its header")
    (checksum,) = _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)
    if zlib.crc32(payload) != checksum:
        raise Corrupt(f"the checksum of a deletion vector is {zlib.crc32(payload)}, expected {checksum}")
    kind = _KINDS.get(payload[:4])
    if kind is None:
        raise UnsupportedFeature(
            f"a deletion vector with the magic number {payload[:4].hex()}: lakelog reads those of 32 and 64 bits"
        )
    try:
        bitmap = kind.deserialize(payload[4:])
        if len(bitmap) > max(_MOST_POSITIONS, _MOST_RATIO * len(data)):
            raise Corrupt(f"a deletion vector of {len(data)} bytes has {len(bitmap)} rows: more than {_MOST_POSITIONS}")
        positions = np.asarray(bitmap.to_array())
    except (ValueError, IndexError) as why:
        raise Corrupt(f"the bitmap of a deletion vector cannot be read: {why}") from None
    return positions.view(np.int64) if positions.dtype == np.uint64 else positions.astype(np.int64)


def size_of_vector(head: bytes) -> int:
    """Bytes of a whole vector (size, payload, checksum), from its first four. Raises Corrupt."""
    if len(head) != _INT.size or (size := _INT.unpack(head)[0]) < 0:
        raise Corrupt(f"a deletion vector starts with {head.hex() or 'nothing'}, which is not a valid size")
    return int(size) + _INT.size + _CHECKSUM.size
