"""What must hold when no process lives any more: all readings of the table are one, and of what was acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import orjson
import protocol_calls as calls
import pyarrow as pa
from simulated_clients import Clients, Follower, rows_by_key
from simulated_store import newest
from simulated_table import World

from lakelog.logstore.header import COMMIT, CORRECTION, DATA, decode_header
from lakelog.spec.row_kind import DELETE, INSERT, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.table.log_position import LogPosition

Change = tuple[str, int, int]
"""Row kind, id, v."""

_NAMES = {INSERT: "+I", UPDATE_BEFORE: "-U", UPDATE_AFTER: "+U", DELETE: "-D"}


class Folded:
    """Changes as a consumer of them ends: rows by key, and how often each row is there without one."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self.rows: dict[int, int] = {}
        self.net: Counter[tuple[int, int]] = Counter()
        self.add(changes)

    def add(self, changes: Iterable[Change]) -> None:
        """Takes changes in their order."""
        for kind, key, value in changes:
            self.net[key, value] += 1 if kind in ("+I", "+U") else -1
            if kind in ("+I", "+U"):
                self.rows[key] = value
            elif kind == "-D":
                self.rows.pop(key, None)

    def table(self, world: World) -> dict[int, int]:
        """By key; without one by value. A row that is not there once is a row of value -1."""
        if world.case.keyed:
            return self.rows
        return {value: value if n == 1 else -1 for (_, value), n in self.net.items() if n}


def check_rest(world: World, clients: Clients) -> list[str]:
    """What is wrong, when all processes have ended and maintenance has been there."""
    wrong: list[str] = []
    history = world.history
    files = _files(world)
    readings = {
        "batch read": rows_by_key(world, calls.batch_read(world.table)),
        "union": rows_by_key(world, calls.union_read(world.table)),
        "plain consumer": Folded(_plain(world)).table(world),
        "transactional tail": Folded(_tail(world, Follower("earliest", True, _earliest(world)))).table(world),
    }
    for follower in clients.followers:
        name = f"{'transactional' if follower.is_transactional else 'eventual'} reader from {follower.start}"
        readings[name] = Folded(_tail(world, follower)).table(world)
    for name, found in readings.items():
        if found != files:
            wrong.append(f"{name} {_sorted(found)} is not the files {_sorted(files)}")
    moment = history.tick()
    history.read("files at rest", moment, files, history.keys())
    wrong += history.wrong()
    wrong += [f"the record of epoch {place} stays" for place in calls.decisions_left(world.table)]
    if world.case.mode == "all":
        wrong += _unbalanced(world)
    return wrong


def _files(world: World) -> dict[int, int]:
    live = world.warehouse.files_at(len(world.warehouse.snapshots))
    out: dict[int, int] = {}
    for files in live.values():
        rows = [row for file in files for row in world.warehouse.rows[file.file_name]]
        if world.case.keyed:
            out |= {key: v for _, kind, key, v in newest(rows) if kind in (INSERT, UPDATE_AFTER)}
        else:
            count = Counter(v for *_, v in rows)
            out |= {v: v if n == 1 else -n for v, n in count.items()}
    return out


def _plain(world: World) -> Iterator[Change]:
    """All that the values say, to a consumer that knows nothing else."""
    for bucket in world.log.buckets:
        for _, _, value, _ in bucket:
            yield from changes_of(value)


def changes_of(value: bytes | None) -> Iterator[Change]:
    """The changes that a value tells."""
    if value is None:
        return
    if value[:1] == b"{":
        change = orjson.loads(value)
        before, after, op = change["before"], change["after"], change["op"]
        if before is not None:
            yield "-D" if op == "d" else "-U", before["id"], before["v"]
        if after is not None:
            yield "+U" if op == "u" else "+I", after["id"], after["v"]
    else:
        found = pa.ipc.open_stream(value).read_all()
        names = (ROW_KIND_COLUMN, "id", "v")
        for kind, key, v in zip(*(found.column(name).to_pylist() for name in names), strict=True):
            yield _NAMES[kind], key, v


def _tail(world: World, follower: Follower) -> Iterator[Change]:
    """What a reader of the log is given, in two parts."""
    table = world.transactional if follower.is_transactional else world.table
    scan, position = calls.log_scan(table), follower.position
    if position.full is not None:
        for batch in calls.full_rows(table, position.full[0]):
            yield from _changes(batch)
    scan = calls.log_scan(table, position.switch)
    for bucket, start in sorted(position.offsets.items()):
        end = len(world.log.buckets[bucket])
        cut = world.dice.randint(start, end) if world.dice.random() < 0.5 else end
        for first, last in ((start, cut), (cut, end)):
            if first < last:
                for batch in scan.read(bucket, first, last):
                    yield from _changes(batch)


def _earliest(world: World) -> LogPosition:
    return calls.begin_reading(world.transactional, "earliest")


def _changes(batch: pa.RecordBatch) -> Iterator[Change]:
    yield from zip(*(batch.column(name).to_pylist() for name in (ROW_KIND_COLUMN, "id", "v")), strict=True)


def _unbalanced(world: World) -> Iterator[str]:
    """Records of a log with before-images that do not count as often as they should: one time or none at all."""
    for number, bucket in enumerate(world.log.buckets):
        counts: dict[int, int] = {}
        for offset, (_, _, value, header) in enumerate(bucket):
            head = decode_header(header, offset)
            if value is not None and head.kind == DATA:
                counts[offset] = counts.get(offset, 0) + 1
            elif head.kind == CORRECTION and head.sign:
                counts[head.ref] = counts.get(head.ref, 0) + head.sign
        for offset, count in counts.items():
            if count not in (0, 1):
                yield f"the record at offset {offset} of bucket {number} counts {count} times"


def _sorted(found: dict[int, int]) -> dict[int, int]:
    return dict(sorted(found.items()))


def listing(world: World) -> list[str]:
    """The log, a line a record."""
    out = []
    for number, bucket in enumerate(world.log.buckets):
        for offset, (_, _, value, header) in enumerate(bucket):
            head = decode_header(header, offset)
            about = f"of {head.ref} sign {head.sign:+d}" if head.kind == CORRECTION else ""
            about = head.extra if head.kind == COMMIT else about
            told = " ".join(f"{kind}{key}:{v}" for kind, key, v in changes_of(value))
            out.append(f"{number}:{offset:<4} {head.kind} {head.writer} {head.epoch} {head.attempt[:6]} {told} {about}")
    return out
