"""Interface of log systems: one append-only log per bucket, append → offsets, read from an offset.

A *log* is the log store of one table: ``buckets`` independent sequences of records, each numbered by a
growing integer offset. Kafka's topic with its partitions, Pulsar's, or the tables of an embedded SQLite file
are logs.

Offsets are positive, below 2^62, and increasing. They are dense if a log appends record by record (embedded, Kafka).
They have gaps if the log packs records (Pulsar). The unit of an append is an **entry**, either a record or a pack of
records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.io.storage.file_io import FileIO

LARGEST_OFFSET: Final = 2**62 - 1
"""The largest offset of any log; larger numbers mark rows that are newer than all records of a log."""
_NOTE_EVERY_S: Final = 60.0


@dataclass(frozen=True)
class LogLocation:
    """The address of a log, as a frozen picklable value that the driver sends to executors.

    ``system`` names the log system, ``address`` is its server (a file path for the embedded log), ``topic``
    its name there, ``owner`` the id of its table ("": unknown), ``storage`` the storage of the table. ``properties``
    are those of the client (never printed: they may hold secrets, or references to them, which
    ``logstore.credentials`` replaces).
    """

    system: str
    address: str
    topic: str
    buckets: int
    retention_ms: int | None = None
    log_id: str = ""
    machine: str = ""
    owner: str = ""
    storage: FileIO | None = field(default=None, repr=False, compare=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def note_every_s(self) -> float:
        """Maximum seconds between position notes of a reader that advances without rows; far below the retention."""
        return _NOTE_EVERY_S if self.retention_ms is None else min(_NOTE_EVERY_S, self.retention_ms / 4000)

    def __hash__(self) -> int:
        return hash((self.system, self.address, self.topic, self.buckets, self.log_id))


RECORDS_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field("header", pa.binary()),
    ]
)
"""Schema of a read: offset, append time in ms, key and value bytes, the one protocol header (or null)."""


@dataclass(frozen=True)
class Records:
    """Records to append to one bucket, column by column, all of the same length.

    ``keys``/``values`` are ``large_binary`` arrays, a null value is a control record. ``headers`` is either one
    header for all records or one per record. ``changes`` is the maximum number of changes per record.
    """

    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    headers: bytes | Sequence[bytes]
    changes: int = 1

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indices: np.ndarray) -> Records:
        """The records with these (ascending, distinct) indices."""
        if len(indices) == len(self):
            return self
        chosen = pa.array(indices)
        headers = self.headers if isinstance(self.headers, bytes) else [self.headers[i] for i in indices]
        return Records(self.keys.take(chosen), self.values.take(chosen), headers, self.changes)


class LogAppender(ABC):
    """Appends records to a log from one process; opened once per process and log, and reused."""

    @property
    def is_stale(self) -> bool:
        """True once its log is known to be missing; callers then open another client."""
        return False

    @abstractmethod
    def end_offsets(self) -> dict[int, int]:
        """Bucket → current end offset, as ``LogReader.end_offsets``."""

    @abstractmethod
    def append(self, bucket: int, records: Records) -> PendingAppend:
        """Starts appending in order. Called many times, from one thread. May raise Unavailable."""

    def append_all(self, parts: Sequence[tuple[int, Records]]) -> list[PendingAppend]:
        """Appends to several buckets, in this order; atomically if the system supports it."""
        return [self.append(bucket, records) for bucket, records in parts]

    @abstractmethod
    def flush(self) -> None:
        """Waits until all appends are acknowledged. Raises Unavailable if one is not.

        After a failure the caller must not use the appender for the same attempt again. The set of acknowledged
        records is unknown, and the next attempt's healing decides about them.
        """

    @abstractmethod
    def close(self) -> None:
        """Releases the client. Does not flush."""


class PendingAppend(ABC):
    """The offsets of one append, known after ``flush``."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """The number of log entries of the append; available before ``flush``."""

    @abstractmethod
    def offsets(self) -> pa.Int64Array:
        """One offset per record, increasing. Raises Unavailable before a successful flush."""

    def orders(self, changes: int) -> np.ndarray:
        """Per record the sequence number of the first of its ``changes`` changes, increasing within a bucket.

        Called after ``flush``. Raises UnsupportedFeature if the numbers would be too large.
        """
        offsets: np.ndarray = self.offsets().to_numpy(zero_copy_only=False)
        if len(offsets) and offsets[-1] >= LARGEST_OFFSET // changes:
            raise UnsupportedFeature(
                f"offset {offsets[-1]} of the log is too large to number {changes} rows within each record: create "
                "the table with 'log-store.data-format' = 'debezium-json'"
            )
        numbers: np.ndarray = offsets * changes
        return numbers


class LogReader(ABC):
    """Reads a log from one process; opened once per process and log, and reused.

    Raises NotFound if the log is deleted or replaced, also while it is open. The reader detects it immediately if the
    check is free, otherwise within ``logstore.topic_identity.CHECK_EVERY_S``.
    """

    @property
    def is_stale(self) -> bool:
        """True once its log is known to be missing; callers then open another client."""
        return False

    @abstractmethod
    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        """The available records with start ≤ offset < end, in order (RECORDS_SCHEMA).

        Without ``end`` it returns the available records immediately (possibly none). With ``end`` it waits until all
        records below ``end`` (which must exist) or ``max_records`` have been read. Large records may end a read sooner,
        after at least one. Raises OffsetExpired if ``start`` is before the first retained offset.
        """

    def chunks(self, bucket: int, start: int, end: int, max_records: int = 100_000) -> Iterator[pa.Table]:
        """The records with start ≤ offset < end, in consecutive parts from ``read``. Raises as ``read``."""
        while start < end:
            records = self.read(bucket, start, end, max_records)
            if records.num_rows == 0:
                return
            yield records
            start = records.column("offset")[records.num_rows - 1].as_py() + 1

    @abstractmethod
    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        """Waits until a record at or after one of the positions (bucket → offset) may exist, or until the timeout."""

    def ready_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Bucket → an offset up to which a reader at these positions can read without waiting; at most the end."""
        return self.end_offsets(list(positions))

    def entries(self, bucket: int, start: int, end: int) -> int | None:
        """The number of entries between two former end offsets, ``start`` and ``end``; None if only a read can count.

        It is an upper bound. If it equals the number of known entries, no other entry is between the offsets.
        """
        return end - start

    def count(self, bucket: int, start: int, end: int, most: int) -> int:
        """The exact number of records with start ≤ offset < end; counting stops at ``most``.

        A log whose offsets have gaps has to read records to count them.
        """
        return max(0, min(most, end - start))

    def last_start(self, bucket: int, end: int) -> int | None:
        """The start offset of the last entry before ``end``, which contains the last record.

        Reads no record. None if the system does not expose it. There may be no record at all.
        """
        return end - 1

    def mark(self, bucket: int, offset: int) -> str:
        """What identifies the record before an offset; "" if it has expired, or if the log is on a server.

        A log that is an older copy has other records from some offset on, once somebody has written to it.
        """
        return ""

    def skip(self, bucket: int, start: int, end: int, count: int) -> int:
        """The offset after the first ``count`` records of start ≤ offset < end; ``end`` if there are fewer."""
        return min(end, start + count)

    @abstractmethod
    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        """Bucket → an offset after the last record and not after the next one; never decreases. Raises Unavailable.

        Raises NotFound if the log was deleted or replaced.
        """

    @abstractmethod
    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        """Bucket → an offset below which no record is retained; the end offset if the bucket is empty."""

    @abstractmethod
    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        """Bucket → offset of the first record appended at or after the time, or the end offset."""

    def is_expirable(self, floors: Mapping[int, int], late_ms: int) -> bool:
        """True if ``LogSystem.expire`` would delete records, or files of them, that are due since ``late_ms``.

        False where the server of the log expires records.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """Releases the client."""


class LogMirror(ABC):
    """A topic with a copy of a log's changes for plain consumers, and the position of that copy; for one process.

    Records and position are committed together or not at all. A newer mirror of the same topic fences an older one.
    """

    @abstractmethod
    def position(self) -> str | None:
        """The last committed position; None if the topic has none, because no mirror has written it.

        Fences no other mirror. Raises InvalidRequest for the topic of another table, Unavailable, InvalidOption.
        """

    @abstractmethod
    def begin(self) -> str | None:
        """Creates the topic if it is missing, fences other mirrors, and returns the position after their last commit.

        Called once, before ``commit``. Raises as ``position``; AlreadyExists for a topic of other producers, or with
        another number of partitions.
        """

    @abstractmethod
    def commit(self, parts: Sequence[tuple[int, Records]], position: str) -> None:
        """Appends records (partition, records) and the position after them, in one transaction.

        After an error it is unknown whether they were committed; another mirror finds out. Raises Fenced, Unavailable,
        InvalidRequest (a row is too large).
        """

    @abstractmethod
    def close(self) -> None:
        """Releases the client, and aborts an open transaction."""


class LogSystem(ABC):
    """A kind of log. Stateless; its factory is registered in ``options.parts.LOG_SYSTEMS``."""

    @abstractmethod
    def create(self, location: LogLocation, adopt: bool = False) -> LogLocation:
        """Creates the log (a topic with its partitions and the retention) and returns its final location.

        CREATE TABLE calls it before it writes the table's schema. An existing empty log of the same shape is adopted;
        with ``adopt`` also one that contains records of another producer. Raises AlreadyExists (it contains records, or
        has another number of buckets), NotFound (nothing to adopt), InvalidOption (a local log), Unavailable.
        """

    @abstractmethod
    def set_retention(self, location: LogLocation) -> None:
        """Sets the retention of the log to that of the location, or to the system's default (None).

        Called by ALTER TABLE. Raises NotFound, InvalidOption (the server does not allow it), Unavailable.
        """

    def expire(self, location: LogLocation, floors: Mapping[int, int]) -> None:  # noqa: B027
        """Deletes the records that are older than the retention of the location.

        Without one, it deletes those that are older than the system's default and below ``floors`` (bucket → offset).
        Called at times by writers and by ``lakelog optimize``. Does nothing where the server of the log expires
        records. Raises as ``check``.
        """

    @abstractmethod
    def drop(self, location: LogLocation) -> None:
        """Deletes the log; does nothing if it does not exist."""

    @abstractmethod
    def check(self, location: LogLocation, spread: bool = False) -> None:
        """Raises NotFound, Unavailable or InvalidRequest if this process cannot use the log.

        NotFound also covers a log that was not created with the table, identified by ``log_id``. ``spread`` is True if
        the Spark application has executors on other machines.
        """

    @abstractmethod
    def probe(self, location: LogLocation) -> LogServer:
        """Checks the server, or the directory of a local log, and leaves no files. Raises the same errors as its use.

        Called by ``lakelog doctor``, with an unused location.
        """

    @abstractmethod
    def appender(self, location: LogLocation) -> LogAppender:
        """Opens an appender. Raises as ``check``."""

    @abstractmethod
    def reader(self, location: LogLocation) -> LogReader:
        """Opens a reader. Raises as ``check``."""


@dataclass(frozen=True)
class LogProblem:
    """A potential problem of the server, and its fix."""

    found: str
    what_to_do: str


@dataclass(frozen=True)
class LogServer:
    """A responding server. ``facts`` are for display: name, value with its unit."""

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[LogProblem, ...] = ()
