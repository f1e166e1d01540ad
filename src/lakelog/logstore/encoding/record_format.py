"""What a log format does: rows of a table ⇄ keys and values of log records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.logstore.base import Records


@dataclass(frozen=True)
class Messages:
    """What is appended to one bucket for its rows: ``records`` of one change each, or of many where the format packs.

    Row i of the bucket is change ``change_of_row[i]`` of record ``record_of_row[i]``; the -U of a pair shares the
    place of its +U.
    """

    records: Records
    record_of_row: np.ndarray
    change_of_row: np.ndarray


class LogFormat(ABC):
    """A format; stateless. Registered in ``logstore.formats.LOG_FORMATS``."""

    changes_per_record: ClassVar[int] = 1
    """The most changes that a record of ``messages`` holds. A log counts, cuts and corrects records, never changes."""

    def records_of(self, rows: int) -> int:
        """So many records hold at most so many rows, or are one."""
        return max(1, rows // self.changes_per_record)

    @abstractmethod
    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        """Turns rows with row kinds (int8) into records, in order.

        ``mode`` is ``all`` or ``upsert``. The second result says for each record the row that it stands for (the +U
        of a merged -U, +U); rows without a record are a -U merged into the next row, or left out in mode upsert.
        """

    def messages(
        self,
        rows: pa.RecordBatch,
        kinds: np.ndarray,
        mode: str,
        keys: Sequence[str],
        header: bytes,
        places: Mapping[int, np.ndarray],
    ) -> dict[int, Messages]:
        """Turns rows into what a task appends, bucket by bucket; ``places`` are the (ascending) rows of each.

        Here each record is one change, and all rows are encoded at once; a format that packs encodes by bucket.
        """
        records, row_of_record = self.encode(rows, kinds, mode, keys, header)
        bucket_of_row = np.empty(rows.num_rows, dtype=np.int64)
        for bucket, indices in places.items():
            bucket_of_row[indices] = bucket
        out = {}
        for bucket, indices in places.items():
            chosen = np.flatnonzero(bucket_of_row[row_of_record] == bucket)
            # a row without a record of its own (a -U) goes with the next one
            at = np.searchsorted(row_of_record[chosen], indices).clip(max=max(len(chosen) - 1, 0))
            out[bucket] = Messages(records.take(chosen), at, np.zeros(len(at), dtype=np.int64))
        return out

    def split(self, key: bytes | None, value: bytes) -> list[tuple[bytes | None, bytes]]:
        """The changes of a record, in order, each with its key as a record of its own: itself, unless it is packed."""
        return [(key, value)]

    @abstractmethod
    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        """Turns values (none null) into rows of ``schema``'s columns plus ``_row_kind`` (string).

        An update with both images becomes -U and +U. Columns that a value does not have are NULL. Raises Corrupt.
        """

    @abstractmethod
    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        """Turns keys into the key columns (``schema``)."""

    @abstractmethod
    def inverse(self, value: bytes) -> bytes:
        """The value that takes a value back: before and after swapped, insert and delete swapped."""

    @abstractmethod
    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        """The before- and after-image of a value, as canonical bytes that are equal when the images are."""

    @abstractmethod
    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        """The value with these images (None: none): it makes its key's row ``after``, or deletes it."""
