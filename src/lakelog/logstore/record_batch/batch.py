"""The frame of a record batch: 61 bytes of numbers and a CRC-32C, then the records.

====================  =====  =========================================================================
field                 bytes  meaning (big endian)
====================  =====  =========================================================================
base offset           8      offset of the first record; set by the log, not covered by the CRC
length                4      bytes after this field
leader epoch          4      set by the broker, not covered by the CRC
magic                 1      2
CRC                   4      CRC-32C of all that follows
attributes            2      bits 0–2 codec, 3 append time, 4 transactional, 5 control
last offset delta     4      offset of the last record less the base offset
base, max timestamp   8, 8   ms
producer id, epoch    8, 2   -1 without idempotence
base sequence         4      number of the first record among those of the producer
count                 4      number of records
====================  =====  =========================================================================

Source: https://kafka.apache.org/documentation/#recordbatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import google_crc32c

from lakelog.errors import Corrupt, UnsupportedFeature

HEAD_BYTES: Final = 61
_BEFORE: Final = struct.Struct(">qiibI")
_AFTER: Final = struct.Struct(">hiqqqhii")
_LENGTH_END: Final = 12
_CRC_END: Final = 21
_MAGIC: Final = 2
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


@dataclass(frozen=True)
class RecordBatch:
    """A record batch; ``payload`` are its records, compressed as ``attributes`` say. Times are in ms."""

    payload: bytes
    count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    last_offset_delta: int
    base_offset: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1

    @property
    def codec(self) -> int:
        """The codec of the payload (``compression``)."""
        return self.attributes & _CODEC

    @property
    def has_append_time(self) -> bool:
        """True if all records have ``max_timestamp``, which the broker set."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True if a later control batch may abort the records."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True for the marker of a transaction, which has no record for a consumer."""
        return bool(self.attributes & _CONTROL)

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    def to_bytes(self) -> bytes:
        """The batch as a broker takes it."""
        after = (
            _AFTER.pack(
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            )
            + self.payload
        )
        size = _CRC_END - _LENGTH_END + len(after)
        return _BEFORE.pack(self.base_offset, size, -1, _MAGIC, google_crc32c.value(after)) + after


def parse_batches(data: bytes) -> Iterator[RecordBatch]:
    """The batches of a fetch, in order; an incomplete last one, with which a fetch may end, is left out.

    Raises Corrupt for a wrong CRC, UnsupportedFeature for messages of Kafka before 0.11.
    """
    at = 0
    while at + HEAD_BYTES <= len(data):
        base, length, leader, magic, crc = _BEFORE.unpack_from(data, at)
        end = at + _LENGTH_END + length
        if magic != _MAGIC:
            raise UnsupportedFeature(
                f"the message at offset {base} has the format {magic} of an old producer; record batches have {_MAGIC}"
            )
        if length < HEAD_BYTES - _LENGTH_END:
            raise Corrupt(f"the record batch at offset {base} is damaged: it says that it has {length} bytes")
        if end > len(data):
            return
        if google_crc32c.value(data[at + _CRC_END : end]) != crc:
            raise Corrupt(f"the record batch at offset {base} is damaged: its CRC differs")
        attributes, last, first_ms, max_ms, producer, epoch, sequence, count = _AFTER.unpack_from(data, at + _CRC_END)
        payload = data[at + HEAD_BYTES : end]
        yield RecordBatch(payload, count, attributes, first_ms, max_ms, last, base, producer, epoch, sequence, leader)
        at = end
