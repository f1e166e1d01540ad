"""What the protocol simulation runs on: what is durable, and a list as the log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from protocol_process import Process
from protocol_records import SHARED, Case, Folded, Row, changes_of_rows

from lakelog.errors import Unavailable
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, PendingAppend, Records

Record = tuple[bytes | None, bytes | None, bytes]
"""Key, value and header."""

Place = tuple[str, int]
"""A writer and its epoch."""


@dataclass
class Decision:
    """An epoch record."""

    attempts: frozenset[str]
    rows: list[Row]
    since: int
    appended: int


@dataclass
class Known:
    """What a driver knows of the log: healed up to ``verified`` for all epochs up to ``decided``; ``extra`` records
    that it has appended since."""

    verified: int
    decided: int
    extra: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of the files: the epochs that it holds, in the order in which they came, and per writer (the last of
    them, the verified offset)."""

    places: tuple[Place, ...] = ()
    sealed: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class World:
    """What is durable: the log of one bucket, decisions, the snapshot's state, Spark's checkpoint."""

    case: Case
    dice: random.Random
    faults: float = 0.0
    log: list[Record] = field(default_factory=list)
    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)
    staged: set[tuple[str, int]] = field(default_factory=set)
    snapshot: Snapshot = Snapshot()
    origins: dict[str, int] = field(default_factory=dict)
    acknowledged: set[Place] = field(default_factory=set)
    order: list[tuple[str, int]] = field(default_factory=list)
    spark_done: int = -1
    offsets: set[int] = field(default_factory=set)
    inputs: dict[tuple[str, int], list[Row]] = field(default_factory=dict)
    attempts: int = 0
    events: Counter[str] = field(default_factory=Counter)

    def state(self, before: tuple[str, int] | None = None) -> dict[int, int]:
        """The rows of the files by key."""
        out: dict[int, int] = {}
        for place in self.order:
            if place == before:
                break
            for key, _, after in self.decisions[place].rows:
                out.pop(key, None)
                if after is not None:
                    out[key] = after
        return out

    def sealed(self, writer: str) -> tuple[int, int]:
        """The last epoch of the writer in the snapshot, and its verified offset; (-1, 0) without one."""
        return self.snapshot.sealed.get(writer, (-1, 0))

    def append(self, key: bytes | None, value: bytes | None, header: bytes) -> None:
        """One record goes to the broker, which may fail: raises Unavailable, the record is there never, once or twice.

        Twice without an error is ruled out by what the log systems promise: their clients are idempotent.
        """
        copies = self.dice.choice((0, 1, 2)) if self.faults and self.dice.random() < self.faults else None
        self.log += [(key, value, header)] * (1 if copies is None else copies)
        if copies is not None:
            self.events["broker failures"] += 1
            raise Unavailable("the broker timed out; whether the record is in the log is unknown")

    def attempt(self) -> str:
        self.attempts += 1
        return f"{self.attempts:016x}"


class _Offsets(PendingAppend):
    def __init__(self, offsets: list[int]) -> None:
        self._offsets = offsets

    @property
    def entries(self) -> int:
        return len(self._offsets)

    def offsets(self) -> pa.Int64Array:
        return pa.array(self._offsets, pa.int64())


class ListLog(LogAppender, LogReader):
    """The log of one process's view; gives way at every step."""

    def __init__(self, world: World, process: Process | None) -> None:
        self.world, self.process = world, process

    def _pause(self) -> None:
        if self.process is not None:
            self.process.pause()

    def append(self, bucket: int, records: Records) -> PendingAppend:
        offsets = []
        headers = [records.headers] * len(records) if isinstance(records.headers, bytes) else records.headers
        for key, value, header in zip(records.keys.to_pylist(), records.values.to_pylist(), headers, strict=True):
            offsets.append(len(self.world.log))
            self.world.append(key, value, header)
            self._pause()
        return _Offsets(offsets)

    def flush(self) -> None:
        self._pause()

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 5) -> pa.Table:
        part = self.world.log[start : min(len(self.world.log) if end is None else end, start + max_records)]
        return records_of(part, start)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        end = len(self.world.log)
        self._pause()
        return {0: end}

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return {0: 0}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        return self.first_offsets() if timestamp_ms <= 0 else self.end_offsets()  # all records are of time 0

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        self._pause()

    def close(self) -> None: ...


def records_of(part: Sequence[Record], start: int) -> pa.Table:
    """Records that lie one after the other from an offset, as a reader of the log gives them."""
    keys, values, headers = (list(c) for c in zip(*part, strict=True)) if part else ([], [], [])
    columns = [list(range(start, start + len(part))), [0] * len(part), keys, values, headers]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, RECORDS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=RECORDS_SCHEMA)


def files_of(world: World, places: Iterable[Place] | None = None) -> Folded:
    """The files: the rows of all decided epochs, or of these."""
    out = Folded()
    for place in world.order if places is None else places:
        out.add(changes_of_rows(world.decisions[place].rows))
    return out


def differences(world: World) -> list[str]:
    """Compares the log, read by a consumer that knows the values' format only, with the files.

    What several writers have changed has another order there, so of such keys the net rows are compared.
    """
    folded = Folded().add_values(value for _, value, _ in world.log)
    return [f"log: {wrong}" for wrong in folded.differs(files_of(world), world.case, SHARED)]
