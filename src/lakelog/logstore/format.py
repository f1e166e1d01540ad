"""What a log format does: rows of a table ⇄ keys and values of log records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.logstore.base import Records


class LogFormat(ABC):
    """A format; stateless. Registered in ``logstore.formats.LOG_FORMATS``."""

    changes_per_record: ClassVar[int] = 1
    """The most changes that a record of ``messages`` holds. A log counts, cuts and corrects records, never changes."""

    @abstractmethod
    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        """Turns rows with row kinds (int8) into records, in order.

        ``mode`` is ``all`` or ``upsert``. The second result says for each record the row that it stands for (the +U
        of a merged -U, +U); rows without a record are a -U merged into the next row, or left out in mode upsert.
        """

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
