"""What a log system does: one append-only log per bucket, append → offsets, read from an offset.

A *log* is the log store of one table: ``buckets`` independent sequences of records, each numbered by a
growing integer offset. Kafka's topic with its partitions, Pulsar's, or the tables of an embedded SQLite file
are logs.

Offsets are positive, below 2^62, and grow; nothing more. They are dense where a log appends record by record
(embedded, Kafka), and have gaps where it packs many into one (Pulsar). What a log appends as one is an **entry**: a
record, or a pack of records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import UnsupportedFeature

LARGEST_OFFSET: Final = 2**62 - 1
"""No log has a larger one; numbers above are for what is newer than all of a log."""
_NOTE_EVERY_S: Final = 60.0


@dataclass(frozen=True)
class LogLocation:
    """Where a log lies, as a frozen picklable value that travels to executors.

    ``system`` names the log system, ``address`` is its server (a file path for the embedded log), ``topic``
    its name there, ``properties`` are passed to the client as they are (never printed: they may hold secrets).
    """

    system: str
    address: str
    topic: str
    buckets: int
    retention_ms: int | None = None
    log_id: str = ""
    machine: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def note_every_s(self) -> float:
        """After so many seconds a reader that came on without a row should note where it is: long before records expire
        that it has passed.
        """
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
"""What a read returns: offset, append time in ms, key and value bytes, the one protocol header (or null)."""


@dataclass(frozen=True)
class Records:
    """Records to append to one bucket, column by column, all of the same length.

    ``keys``/``values`` are ``large_binary`` arrays, a null value is a control record. ``headers`` is either one
    header for all records or one per record. ``changes`` is the most changes that one of them holds.
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
        """Whether its log is known not to be there any more: another client is opened instead."""
        return False

    @abstractmethod
    def end_offsets(self) -> dict[int, int]:
        """Bucket → where the log ends now, as ``LogReader.end_offsets``."""

    @abstractmethod
    def append(self, bucket: int, records: Records) -> PendingAppend:
        """Starts appending in order. Called many times, from one thread. May raise Unavailable."""

    def append_all(self, parts: Sequence[tuple[int, Records]]) -> list[PendingAppend]:
        """Appends to several buckets, in the order given; where the system can, as one step."""
        return [self.append(bucket, records) for bucket, records in parts]

    @abstractmethod
    def flush(self) -> None:
        """Waits until all that was appended is acknowledged. Raises Unavailable when something was not.

        After a failure the appender must not be used for the same attempt again: what was
        acknowledged is unknown, and the next attempt's healing decides.
        """

    @abstractmethod
    def close(self) -> None:
        """Releases the client. Does not flush."""


class PendingAppend(ABC):
    """The offsets of one append, known after ``flush``."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """How many entries of the log the append takes; known at once."""

    @abstractmethod
    def offsets(self) -> pa.Int64Array:
        """One offset per record, growing. Raises Unavailable before a successful flush."""

    def orders(self, changes: int) -> np.ndarray:
        """Per record the number of the first of its ``changes`` changes; those of all records of a bucket are in order.

        Called after ``flush``. Raises UnsupportedFeature when the numbers would be too large.
        """
        offsets: np.ndarray = self.offsets().to_numpy(zero_copy_only=False)
        if len(offsets) and offsets[-1] >= LARGEST_OFFSET // changes:
            raise UnsupportedFeature(
                f"offset {offsets[-1]} of the log is too large to number {changes} rows within each record: make the "
                f"table with 'log-store.data-format' = 'debezium-json'"
            )
        numbers: np.ndarray = offsets * changes
        return numbers


class LogReader(ABC):
    """Reads a log from one process; opened once per process and log, and reused.

    Raises NotFound when the log is deleted or replaced, also while it is open: at once where that is seen for nothing,
    else within ``topics.identity.LOOK_EVERY_S``.
    """

    @property
    def is_stale(self) -> bool:
        """Whether its log is known not to be there any more: another client is opened instead."""
        return False

    @abstractmethod
    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        """Records with start ≤ offset < end that are there now, in order (RECORDS_SCHEMA).

        Returns at once what is there (possibly nothing); with ``end`` given it waits until all records below ``end``
        (which must exist) or ``max_records`` have been read. Raises OffsetExpired when ``start`` lies before the first
        offset still held.
        """

    def chunks(self, bucket: int, start: int, end: int, max_records: int = 100_000) -> Iterator[pa.Table]:
        """The records with start ≤ offset < end, ``read`` one part after the other until there are none. Raises so."""
        while start < end:
            found = self.read(bucket, start, end, max_records)
            if found.num_rows == 0:
                return
            yield found
            start = found.column("offset")[found.num_rows - 1].as_py() + 1

    @abstractmethod
    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        """Returns as soon as a record at or after one of the positions (bucket → offset) may be there, or after the
        timeout.
        """

    def ready_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Bucket → an offset up to which a reader at these positions can read without waiting; perhaps not yet the
        end.
        """
        return self.end_offsets(list(positions))

    def entries(self, bucket: int, start: int, end: int) -> int | None:
        """How many entries were appended from ``start`` to ``end``, two ends that the log had; None: only a read tells.

        Never too few: when it is the number of those that are known, there is nothing else between.
        """
        return end - start

    def count(self, bucket: int, start: int, end: int, most: int) -> int:
        """How many records lie in start ≤ offset < end; at most ``most``, from which on it stops counting.

        Exact. A log whose offsets have gaps has to read for it.
        """
        return max(0, min(most, end - start))

    def last_start(self, bucket: int, end: int) -> int | None:
        """An offset from which on, before ``end``, lies only the last record, or those appended in one with it.

        Reads no record. None where the system does not tell; there may be no record at all.
        """
        return end - 1

    def skip(self, bucket: int, start: int, end: int, count: int) -> int:
        """The offset behind the first ``count`` records of start ≤ offset < end; ``end`` when there are fewer."""
        return min(end, start + count)

    @abstractmethod
    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        """Bucket → an offset behind the last record and not behind the next one; never goes back. Raises Unavailable.

        Raises NotFound when the log is gone, or another one is in its place.
        """

    @abstractmethod
    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        """Bucket → an offset below which nothing is held any more; the end of a bucket that holds nothing."""

    @abstractmethod
    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        """Bucket → offset of the first record appended at or after the time, or the end offset."""

    @abstractmethod
    def close(self) -> None:
        """Releases the client."""


class LogSystem(ABC):
    """A kind of log. Stateless; its factory is registered in ``options.parts.LOG_SYSTEMS``."""

    @abstractmethod
    def create(self, location: LogLocation) -> LogLocation:
        """Makes the log (a topic with one partition a bucket, retention set) and returns its final location.

        Called at CREATE TABLE, before the table's schema is written. An existing empty log of the same shape is
        adopted. Raises AlreadyExists (it holds records, or has another number of buckets), Unavailable.
        """

    @abstractmethod
    def set_retention(self, location: LogLocation) -> None:
        """Makes the log keep records as long as the location says from now on, or as the system does (None).

        Called by ALTER TABLE. Raises NotFound, InvalidOption (the server does not allow it), Unavailable.
        """

    @abstractmethod
    def drop(self, location: LogLocation) -> None:
        """Deletes the log; nothing happens when it is already gone."""

    @abstractmethod
    def check(self, location: LogLocation, spread: bool = False) -> None:
        """Raises when the log cannot be used from here: NotFound, Unavailable, InvalidRequest.

        NotFound also says that a log lies there which was not made with the table: the identity is in ``log_id``.
        ``spread`` says that the Spark that will use it has executors on other machines.
        """

    @abstractmethod
    def probe(self, location: LogLocation) -> LogServer:
        """Examines the server, or the place of a local log; leaves nothing behind. Raises what using it would raise.

        Called by ``lakelog doctor``, with a location that no log has yet.
        """

    @abstractmethod
    def appender(self, location: LogLocation) -> LogAppender:
        """Opens an appender. Raises as ``check``."""

    @abstractmethod
    def reader(self, location: LogLocation) -> LogReader:
        """Opens a reader. Raises as ``check``."""


@dataclass(frozen=True)
class LogProblem:
    """Something about the server that may go wrong one day, and what to do."""

    found: str
    what_to_do: str


@dataclass(frozen=True)
class LogServer:
    """A server that answers. ``facts`` are for people: what, value with its unit."""

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[LogProblem, ...] = ()
