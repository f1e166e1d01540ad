"""What clients asked and were answered, and whether one order explains it: each key is a register."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

Value = int | None
"""What a register holds; every written value is unique, None is a key without a row."""

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclass(eq=False)
class Write:
    """A write of some keys at once. ``tries`` are what it may have written by key, one of them and that whole: a source
    may give a second try other rows than the first.

    ``outcome``: ``ok`` it is in; ``failed`` it must never be seen; ``unknown`` either.
    """

    who: str
    invoked: int
    tries: list[dict[int, Value]] = field(default_factory=list)
    responded: float = inf
    outcome: str = UNKNOWN


@dataclass(frozen=True)
class Read:
    """One key as a read has found it."""

    who: str
    key: int
    value: Value
    invoked: int
    responded: float


class History:
    """What happened, in the order of a counter."""

    def __init__(self) -> None:
        self._clock = 0
        self.writes: list[Write] = []
        self.reads: list[Read] = []

    def tick(self) -> int:
        """The next moment."""
        self._clock += 1
        return self._clock

    def invoke(self, who: str) -> Write:
        """A write begins."""
        write = Write(who, self.tick())
        self.writes.append(write)
        return write

    def respond(self, write: Write, outcome: str) -> None:
        """A write was answered; the first answer that is not unknown counts."""
        if write.outcome == UNKNOWN and outcome != UNKNOWN:
            write.outcome, write.responded = outcome, self.tick()

    def read(self, who: str, invoked: int, found: Mapping[int, Value], keys: Iterable[int]) -> None:
        """A read was answered."""
        now = self.tick()
        self.reads += [Read(who, key, found.get(key), invoked, now) for key in keys]

    def keys(self) -> set[int]:
        """All keys that somebody may have written."""
        return {key for write in self.writes for written in write.tries for key in written}

    def wrong(self) -> list[str]:
        """What nobody may have seen, and what is wrong with each key that has no order."""
        of_value = {v: w for w in self.writes for t in w.tries for v in t.values() if v is not None}
        wrong = []
        for read in {r.value: r for r in self.reads if r.value is not None}.values():
            write = of_value.get(read.value)
            if write is None:
                wrong.append(f"{read.who} found {read.value} of key {read.key}, which nobody wrote")
            elif write.outcome == FAILED:
                wrong.append(f"{read.who} found {read.value} of key {read.key}, but {write.who} was refused")
        seen = {(r.key, r.value) for r in self.reads if r.value is not None}
        ops: dict[int, list[_Op]] = {}
        for write in self.writes:
            if write.outcome == FAILED:
                continue
            found = {item for t in write.tries for item in t.items() if item in seen}
            tries = [t for t in write.tries if found <= t.items()]
            if not tries:
                wrong.append(f"two tries of {write.who} were seen: {sorted(found)}")
            for key in {key for t in tries for key in t}:
                is_sure = bool(found) or (write.outcome == OK and len(tries) == 1)
                is_sure = is_sure and all(key in t for t in tries)
                values = sorted({t[key] for t in tries if key in t}, key=lambda v: v or 0)
                responded = write.responded if write.outcome == OK else inf
                value = next((v for v in values if (key, v) in seen), values[0])
                ops.setdefault(key, []).append(_Op(write.who, value, write.invoked, responded, is_sure))
        for read in self.reads:
            ops.setdefault(read.key, []).append(
                _Op(read.who, read.value, read.invoked, read.responded, True, is_read=True)
            )
        for key, held in sorted(ops.items()):
            if not _has_order([op for op in held if not op.is_read], [op for op in held if op.is_read]):
                wrong.append(f"key {key} has no order: {_told(held)}")
        return wrong


@dataclass(frozen=True)
class _Op:
    who: str
    value: Value
    invoked: int
    responded: float
    is_sure: bool
    is_read: bool = False


def _has_order(writes: list[_Op], reads: list[_Op]) -> bool:
    """Whether there is an order that agrees with real time, in which each read has the value of the last write.

    Searches through the orders of the writes (Wing and Gong), and never twice from the same place; a read that fits is
    taken at once, that costs no other order anything.
    """
    reads = sorted(set(reads), key=lambda op: op.invoked)
    tried: set[tuple[int, int, Value]] = set()
    stack: list[tuple[int, int, Value]] = [(0, 0, None)]
    all_reads = (1 << len(reads)) - 1
    while stack:
        done, read, value = stack.pop()
        limit = min((op.responded for i, op in enumerate(writes) if op.is_sure and not done >> i & 1), default=inf)
        changed = True
        while changed:
            changed = False
            first = min((op.responded for i, op in enumerate(reads) if not read >> i & 1), default=inf)
            for i, op in enumerate(reads):
                if not read >> i & 1 and op.value == value and op.invoked < min(limit, first):
                    read |= 1 << i
                    changed = True
        if (
            read == all_reads
            and limit == inf
            and not any(op.is_sure and not done >> i & 1 for i, op in enumerate(writes))
        ):
            return True
        if (done, read, value) in tried:
            continue
        tried.add((done, read, value))
        limit = min(limit, min((op.responded for i, op in enumerate(reads) if not read >> i & 1), default=inf))
        for i, op in enumerate(writes):
            if not done >> i & 1 and op.invoked < limit:
                stack.append((done | 1 << i, read, op.value))
    return False


def _told(ops: list[_Op]) -> str:
    told = []
    for op in sorted(ops, key=lambda op: op.invoked):
        what = "reads" if op.is_read else "writes" if op.is_sure else "may write"
        told.append(f"[{op.invoked}-{op.responded:.0f}] {op.who} {what} {op.value}")
    return "; ".join(told)
