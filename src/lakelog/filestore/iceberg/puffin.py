"""Puffin files: the deletion vectors of data files, as Iceberg's readers take them. Pure.

Source: Iceberg's Puffin specification, blob type ``deletion-vector-v1``. Such a blob has the bytes of a 64-bit vector
of Apache Paimon.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from lakelog.paimon.index.deletion_vector import Positions, encode_vector

_MAGIC: Final = b"PFA1"
_BLOB_TYPE: Final = "deletion-vector-v1"
_POSITION_FIELD: Final = 2147483645
"""Field id of the metadata column ``_pos``."""
_NOT_KNOWN: Final = -1
"""Snapshot and sequence number in the metadata of a blob; the specification requires it."""
_END: Final = struct.Struct("<i4x4s")
"""Size of the footer's payload, flags, magic bytes."""


@dataclass(frozen=True)
class Blob:
    """Range of a deletion vector in a Puffin file; ``cardinality`` is its number of deleted rows."""

    offset: int
    length: int
    cardinality: int


def puffin_file(vectors: Mapping[str, Positions]) -> tuple[bytes, dict[str, Blob]]:
    """A Puffin file with the vectors of data files by location, and their ranges; empty vectors are left out."""
    data = bytearray(_MAGIC)
    blobs: dict[str, Blob] = {}
    for location, positions in vectors.items():
        if len(positions):
            vector = encode_vector(positions, wide=True)
            blobs[location] = Blob(len(data), len(vector), len(positions))
            data += vector
    footer = orjson.dumps({"blobs": [_metadata(*item) for item in blobs.items()], "properties": {}})
    data += _MAGIC + footer + _END.pack(len(footer), _MAGIC)
    return bytes(data), blobs


def _metadata(location: str, blob: Blob) -> dict[str, object]:
    return {
        "type": _BLOB_TYPE,
        "fields": [_POSITION_FIELD],
        "snapshot-id": _NOT_KNOWN,
        "sequence-number": _NOT_KNOWN,
        "offset": blob.offset,
        "length": blob.length,
        "properties": {"referenced-data-file": location, "cardinality": str(blob.cardinality)},
    }
