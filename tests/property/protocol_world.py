"""What the protocol simulation runs on: processes that go step by step, what is durable, and a list as the log."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa

from lakelog.errors import CommitConflict, Fenced
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, PendingAppend, Records
from lakelog.logstore.formats import log_format
from lakelog.spec.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

FORM = log_format("debezium-json")
ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[int, int | None, int | None]
"""A change: key, value before, value after."""


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
        except (Killed, Fenced, CommitConflict):
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


@dataclass
class World:
    """What is durable: the log of one bucket, decisions, the snapshot's state, Spark's checkpoint."""

    mode: str
    keyed: bool
    dice: random.Random
    log: list[tuple[bytes | None, bytes | None, bytes]] = field(default_factory=list)
    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)
    staged: set[tuple[str, int]] = field(default_factory=set)
    sealed: dict[str, tuple[int, int]] = field(default_factory=dict)
    order: list[tuple[str, int]] = field(default_factory=list)
    spark_done: int = -1
    offsets: set[int] = field(default_factory=set)
    inputs: dict[tuple[str, int], list[Row]] = field(default_factory=dict)
    attempts: int = 0

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
            self.world.log.append((key, value, header))
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


def differences(world: World) -> list[str]:
    """Compares the log, read by a consumer that knows debezium-json only, with the files."""
    net: Counter[tuple[int, int]] = Counter()
    folded: dict[int, int] = {}
    for _, value, _ in world.log:
        if value is None:
            continue
        change = json.loads(value)
        before, after = change["before"], change["after"]
        if before is not None:
            net[before["id"], before["v"]] -= 1
            if change["op"] == "d":
                folded.pop(before["id"], None)
        if after is not None:
            net[after["id"], after["v"]] += 1
            folded[after["id"]] = after["v"]
    files: Counter[tuple[int, int]] = Counter()
    for place in world.order:
        for key, before, after in world.decisions[place].rows:
            files[key, -1 if before is None else before] -= before is not None
            files[key, -1 if after is None else after] += after is not None
    wrong = []
    if world.mode == "all" and {k: n for k, n in net.items() if n} != {k: n for k, n in files.items() if n}:
        wrong.append(f"net rows {dict(net)} are not the files {dict(files)}")
    if world.keyed and folded != world.state():
        wrong.append(f"fold by key {folded} is not the files {world.state()}")
    return wrong
