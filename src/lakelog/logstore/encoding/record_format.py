"""Interface of log formats: rows of a table ⇄ keys and values of log records."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError

from lakelog.errors import Corrupt, LakelogError
from lakelog.logstore.base import Records
from lakelog.options.option import Options

MALFORMED: Final = (
    Corrupt, pa.ArrowException, PolarsError, PanicException, ValueError, TypeError, LookupError, ArithmeticError,
    AttributeError, BufferError, EOFError, RecursionError, SystemError, struct.error,
)  # fmt: skip
"""Errors of decoding a malformed value of a producer."""
_READING: Final = ("row_counts", "split", "decode_keys", "inverse", "images", "asserting")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _raising_corrupt(method: Callable[_P, _R]) -> Callable[_P, _R]:
    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except LakelogError:
            raise
        except MALFORMED as why:
            raise Corrupt(f"a log value is not of its format: {type(why).__name__}: {why}") from why

    return call


@dataclass(frozen=True)
class Messages:
    """The records of one bucket's rows: ``records`` with one change each, or with many if the format packs.

    Row i of the bucket is change ``change_of_row[i]`` of record ``record_of_row[i]``; the -U of a pair shares the
    change number of its +U. ``rows`` are the bucket's rows, if the format had to gather them.
    """

    records: Records
    record_of_row: np.ndarray
    change_of_row: np.ndarray
    rows: pa.RecordBatch | None = None


class LogFormat(ABC):
    """A format; stateless. Registered in ``logstore.formats.LOG_FORMATS``.

    What its methods raise for a malformed value becomes Corrupt; for ``decode``, its callers treat ``MALFORMED``.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name in _READING:
            if name in vars(cls):
                setattr(cls, name, _raising_corrupt(vars(cls)[name]))

    changes_per_record: ClassVar[int] = 1
    """Maximum changes per record of ``messages``. A log counts, cuts and corrects records, never changes."""

    spark_decodes: ClassVar[bool] = False
    """Whether Spark's own operators decode it as JSON with ``before``, ``after`` and ``op`` (``spark/realtime``)."""

    is_written: ClassVar[bool] = True
    """Whether lakelog writes it, too; otherwise only another system does, and no healing needs to read it."""

    def records_of(self, rows: int) -> int:
        """The number of records that contain at most this number of rows; at least one."""
        return max(1, rows // self.changes_per_record)

    def row_counts(self, values: pa.LargeBinaryArray) -> np.ndarray:
        """The number of rows in each value (none null), without decoding them; 1 without packing. Raises Corrupt."""
        return np.ones(len(values), np.int64)

    def of_table(self, options: Options, topic: str) -> LogFormat:
        """The format as these options of a table say, for its log in this topic. Raises InvalidOption."""
        return self

    def completed(
        self, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray, names: Sequence[str]
    ) -> pa.LargeBinaryArray:
        """Values of another producer, with one for each record without a value that its key makes a change.

        ``names`` are the columns of the primary key. By default such a record changes no row.
        """
        return values

    @abstractmethod
    def encode(
        self, rows: pa.RecordBatch, kinds: np.ndarray, mode: str, keys: Sequence[str], header: bytes
    ) -> tuple[Records, np.ndarray]:
        """Turns rows with row kinds (int8) into records, in order.

        ``mode`` is ``all`` or ``upsert``. The second result is the row of each record (the +U of a merged -U, +U).
        Rows without a record are a -U merged into the next row, or omitted in mode upsert.
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
        """Turns rows into the records of a task, per bucket; ``places`` are the (ascending) rows of each bucket.

        In this default each record is one change, and all rows are encoded at once. A packing format encodes by bucket.
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
        """The changes of a record as (key, value) pairs, in order; an unpacked record yields itself."""
        return [(key, value)]

    @abstractmethod
    def decode(self, values: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        """Turns values (none null) into rows of ``schema``'s columns plus ``_row_kind`` (string).

        An update with both images becomes -U and +U. Missing columns are NULL. Raises Corrupt.
        """

    def lacking(self, values: pa.LargeBinaryArray, names: Sequence[str]) -> list[frozenset[str]]:
        """The columns that the new row of each value does not have, regardless of case; none without a new row."""
        return [frozenset()] * len(values)

    @abstractmethod
    def decode_keys(self, keys: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
        """Turns keys into the key columns (``schema``)."""

    @abstractmethod
    def inverse(self, value: bytes) -> bytes:
        """The value that reverts a value, with before and after swapped, and insert and delete swapped."""

    @abstractmethod
    def images(self, value: bytes) -> tuple[bytes | None, bytes | None]:
        """The before- and after-image of a value, as canonical bytes that are equal when the images are."""

    @abstractmethod
    def asserting(self, after: bytes | None, before: bytes | None) -> bytes:
        """The value with these images (None: no image), which sets its key's row to ``after`` or deletes it."""
