"""What the protocol simulation runs on: processes that go step by step, what is durable, and a list as the log."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa

from lakelog.errors import CommitConflict, Fenced, Unavailable
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, PendingAppend, Records
from lakelog.logstore.formats import log_format
from lakelog.spec.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

FORM = log_format("debezium-json")
ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[int, int | None, int | None]
"""A change: key, value before, value after."""

Record = tuple[bytes | None, bytes | None, bytes]
"""Key, value and header."""

Place = tuple[str, int]
"""A writer and its epoch."""


class Killed(BaseException):
    """Ends a process at the place where it waits."""


class Process:
    """A thread that runs one step at a time."""

    here = threading.local()

    def __init__(self, body: Callable[[Process], None]) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self.done, self.killed, self.failure = False, False, None
        self._body, self._ready = body, lambda: True
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        Process.here.process = self
        self._go.acquire()
        try:
            if not self.killed:
                self._body(self)
        except (Killed, Fenced, CommitConflict, Unavailable):
            pass
        except BaseException as failure:  # noqa: BLE001 - told to the test by the scheduler
            self.failure = failure
        self.done = True
        self._back.release()

    def pause(self) -> None:
        """Gives way, at a place where the process may be killed."""
        self._back.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Gives way until something holds."""
        self._ready = ready
        self.pause()

    @staticmethod
    def sleep(seconds: float) -> None:
        """Stands for the clock's: one millisecond is one time that the scheduler wants to run this process."""
        left = iter(range(int(seconds * 1000)))
        Process.here.process.wait_until(lambda: next(left, None) is None)

    def step(self) -> None:
        if self.done or not (self.killed or self._ready()):
            return
        self._ready = lambda: True
        self._go.release()
        self._back.acquire()
        if self.failure is not None:
            raise self.failure

    def kill(self) -> None:
        self.killed = True
        self.step()


class Steps:
    """A process that is a generator: cheaper, for tasks."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps, self.done = steps, False

    def step(self) -> None:
        self.done = self.done or next(self._steps, self) is self

    def kill(self) -> None:
        self.done = True


@dataclass
class Decision:
    """An epoch record."""

    attempts: frozenset[str]
    rows: list[Row]
    since: int
    appended: int


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of the files: the epochs that it holds, and per writer (the last of them, the verified offset)."""

    places: tuple[Place, ...] = ()
    sealed: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class World:
    """What is durable: the log of one bucket, decisions, the snapshot's state, Spark's checkpoint."""

    mode: str
    keyed: bool
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


@cache
def record_of(mode: str, keyed: bool, row: Row) -> tuple[bytes | None, bytes]:
    """Key and value of a change, as the real format writes them."""
    key, before, after = row
    kinds, values = [], []
    if before is not None:
        kinds.append(DELETE if after is None else UPDATE_BEFORE)
        values.append(before)
    if after is not None:
        kinds.append(INSERT if before is None else UPDATE_AFTER)
        values.append(after)
    batch = pa.RecordBatch.from_pydict({"id": [key] * len(values), "v": values}, schema=ROWS)
    records, _ = FORM.encode(batch, np.array(kinds, np.int8), mode, ["id"] if keyed else [], b"")
    (one_key,), (value,) = records.keys.to_pylist(), records.values.to_pylist()
    return one_key, value


class _Offsets(PendingAppend):
    def __init__(self, offsets: list[int]) -> None:
        self._offsets = offsets

    def offsets(self) -> pa.Int64Array:
        return pa.array(self._offsets, pa.int64())


class ListLog(LogAppender, LogReader):
    """The log of one process's view; gives way at every step."""

    def __init__(self, world: World, process: Process) -> None:
        self.world, self.process = world, process

    def append(self, bucket: int, records: Records) -> PendingAppend:
        offsets = []
        headers = [records.headers] * len(records) if isinstance(records.headers, bytes) else records.headers
        for key, value, header in zip(records.keys.to_pylist(), records.values.to_pylist(), headers, strict=True):
            offsets.append(len(self.world.log))
            self.world.append(key, value, header)
            self.process.pause()
        return _Offsets(offsets)

    def flush(self) -> None:
        self.process.pause()

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 5) -> pa.Table:
        part = self.world.log[start : min(len(self.world.log) if end is None else end, start + max_records)]
        keys, values, headers = (list(c) for c in zip(*part, strict=True)) if part else ([], [], [])
        columns = [list(range(start, start + len(part))), [0] * len(part), keys, values, headers]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, RECORDS_SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=RECORDS_SCHEMA)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        end = len(self.world.log)
        self.process.pause()
        return {0: end}

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return {0: 0}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        raise NotImplementedError

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


Change = tuple[str, int, int]
"""What an update of a table is to its reader: op (``+`` or ``-``, ``x`` for a delete by key), key, value."""


@cache
def changes_of(value: bytes) -> tuple[Change, ...]:
    """A log value as a consumer reads it that knows debezium-json only."""
    change = json.loads(value)
    before, after = change["before"], change["after"]
    out: list[Change] = [] if before is None else [("x" if change["op"] == "d" else "-", before["id"], before["v"])]
    return (*out, *([] if after is None else [("+", after["id"], after["v"])]))


@dataclass
class Folded:
    """Changes, added up and folded by key."""

    net: Counter[tuple[int, int]] = field(default_factory=Counter)
    rows: dict[int, int] = field(default_factory=dict)

    def add(self, changes: Iterable[Change]) -> Folded:
        for op, key, value in changes:
            self.net[key, value] += 1 if op == "+" else -1
            if op == "+":
                self.rows[key] = value
            elif op == "x":
                self.rows.pop(key, None)
        return self

    def add_log(self, records: Iterable[Record]) -> Folded:
        for _, value, _ in records:
            if value is not None:
                self.add(changes_of(value))
        return self

    def differs(self, other: Folded, world: World) -> list[str]:
        """What is wrong with these rows, if the other ones are right."""
        wrong = []
        mine, right = ({k: n for k, n in f.net.items() if n} for f in (self, other))
        if world.mode == "all" and mine != right:
            wrong.append(f"net rows {mine} are not {right}")
        if world.keyed and self.rows != other.rows:
            wrong.append(f"rows by key {self.rows} are not {other.rows}")
        return wrong


def changes_of_rows(rows: Iterable[Row]) -> Iterator[Change]:
    """Changes of the files, as a reader of their changelog sees them."""
    for key, before, after in rows:
        if before is not None:
            yield "x" if after is None else "-", key, before
        if after is not None:
            yield "+", key, after


def files_of(world: World, places: Iterable[Place] | None = None) -> Folded:
    """The files: the rows of all decided epochs, or of these."""
    out = Folded()
    for place in world.order if places is None else places:
        out.add(changes_of_rows(world.decisions[place].rows))
    return out


def differences(world: World) -> list[str]:
    """Compares the log, read by a consumer that knows debezium-json only, with the files."""
    return [f"log: {wrong}" for wrong in Folded().add_log(world.log).differs(files_of(world), world)]
