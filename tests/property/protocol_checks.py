"""Final checks, after all processes ended: all reads agree and contain every acknowledged row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
import protocol_calls as calls
import pyarrow as pa
from simulated_clients import Clients, Follower
from simulated_rows import extra_columns, rows_by_key
from simulated_table import SimulatedTable, World
from simulated_warehouse import newest

from lakelog.logstore.protocol.header import COMMIT, CORRECTION, DATA, decode_header
from lakelog.paimon.rows.row_kind import DELETE, INSERT, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.log.record_schemas import RecordSchemas

Change = tuple[str, int, int]
"""Row kind, id, v."""

Image = Mapping[str, int | None]
"""A row: column → value."""

_NAMES = {INSERT: "+I", UPDATE_BEFORE: "-U", UPDATE_AFTER: "+U", DELETE: "-D"}


class Folded:
    """The final state of a consumer: rows by key, or without a key the count of each row."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self.rows: dict[int, int] = {}
        self.net: Counter[tuple[int, int]] = Counter()
        self.add(changes)

    def add(self, changes: Iterable[Change]) -> None:
        """Applies changes in order."""
        for kind, key, value in changes:
            self.net[key, value] += 1 if kind in ("+I", "+U") else -1
            if kind in ("+I", "+U"):
                self.rows[key] = value
            elif kind == "-D":
                self.rows.pop(key, None)

    def table(self, world: World) -> dict[int, int]:
        """Rows by key, or without a key by value; a row with another count than one has the value -1."""
        if world.case.keyed:
            return self.rows
        return {value: value if n == 1 else -1 for (_, value), n in self.net.items() if n}


def check_rest(world: World, table: SimulatedTable, clients: Clients) -> list[str]:
    """The errors of a table after all processes have ended and maintenance has run."""
    wrong: list[str] = []
    history = table.history
    files = _files(world, table)
    found = {"batch read": calls.batch_read(table.handle), "union": calls.union_read(table.handle)}
    for name, rows in found.items():
        wrong += [f"{name} has {bad}" for bad in _wrong_extras(world, rows.to_pylist(), table.handle.schema)]
    earliest = Follower(table, "earliest", True, calls.begin_reading(calls.transactional(table.handle), "earliest"))
    readings = {name: rows_by_key(world, rows) for name, rows in found.items()}
    readings["plain consumer"] = Folded(_plain(table)).table(world)
    readings["transactional tail"] = Folded(_tail(world, earliest, wrong)).table(world)
    if world.case.mode == "upsert":
        for schema, image in _last_images(table):
            wrong += [f"the log ends with {bad}" for bad in _wrong_extras(world, [image], schema)]
    for follower in clients.followers:
        if follower.table is not table:
            continue
        name = f"{'transactional' if follower.is_transactional else 'eventual'} reader from {follower.start}"
        readings[name] = Folded(_tail(world, follower, wrong)).table(world)
    for name, found in readings.items():
        if found != files:
            wrong.append(f"{name} {_sorted(found)} is not the files {_sorted(files)}")
    if world.case.replaces:
        history.conclude(files)
        wrong += [f"{writer} stays registered" for writer in calls.replacements_left(table.handle)]
    moment = history.tick()
    history.read("files at rest", moment, files, history.keys())
    wrong += [f"the record of epoch {place} stays" for place in calls.decisions_left(table.handle)]
    if world.case.mode == "all":
        wrong += _unbalanced(table)
    return wrong


def _files(world: World, table: SimulatedTable) -> dict[int, int]:
    live = table.warehouse.files_at(table.warehouse.newest)
    out: dict[int, int] = {}
    for files in live.values():
        rows = [row for file in files for row in table.warehouse.rows_of(file)]
        if world.case.keyed:
            out |= {key: v for _, kind, key, v, *_ in newest(rows) if kind in (INSERT, UPDATE_AFTER)}
        else:
            count = Counter(row[3] for row in rows)
            out |= {v: v if n == 1 else -n for v, n in count.items()}
    return out


def _wrong_extras(world: World, rows: Iterable[Image], schema: TableSchema) -> Iterator[str]:
    """Rows with a wrong value in a column that ALTER has renamed or added."""
    for row in rows:
        for number, name in extra_columns(schema).items():
            if row.get(name) not in world.extras.get((row["v"] or 0, number), {None}):
                yield f"{name} = {row.get(name)} in the row of value {row['v']}, schema {schema.id}"


def _last_images(table: SimulatedTable) -> list[tuple[TableSchema, Image]]:
    """The last row of each key in an upsert log, and the schema of its columns."""
    out: dict[int, tuple[TableSchema, Image]] = {}
    schemas = RecordSchemas(table.handle.with_newest_schema())
    for bucket in table.log.buckets:
        for offset, (_, _, value, header) in enumerate(bucket):
            schema = schemas.of(decode_header(header, offset).schema)
            out |= {image["id"]: (schema, image) for kind, image in images_of(value)}
    return list(out.values())


def _plain(table: SimulatedTable) -> Iterator[Change]:
    """All changes in the values, for a consumer that reads nothing else."""
    for bucket in table.log.buckets:
        for _, _, value, _ in bucket:
            yield from changes_of(value)


def changes_of(value: bytes | None) -> Iterator[Change]:
    """The changes in a value."""
    for kind, image in images_of(value):
        yield kind, image["id"], image["v"]


def images_of(value: bytes | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The changes in a value, with whole rows."""
    if value is None:
        return
    if value[:1] == b"{":
        change = orjson.loads(value)
        before, after, op = change["before"], change["after"], change["op"]
        if before is not None:
            yield "-D" if op == "d" else "-U", before
        if after is not None:
            yield "+U" if op == "u" else "+I", after
    else:
        found = pa.ipc.open_stream(value).read_all()
        for image in found.to_pylist():
            yield _NAMES[image.pop(ROW_KIND_COLUMN)], image


def _tail(world: World, follower: Follower, wrong: list[str]) -> Iterator[Change]:
    """The records of a reader of the log, in two parts; adds the errors of its rows."""
    handle, position = follower.table.handle, follower.position
    for batch in follower.full:
        yield from _changes(batch)
    scan = calls.log_scan(calls.transactional(handle) if follower.is_transactional else handle, position.switch)
    for bucket, start in sorted(position.offsets.items()):
        end = len(follower.table.log.buckets[bucket])
        cut = world.dice.randint(start, end) if world.dice.random() < 0.5 else end
        for first, last in ((start, cut), (cut, end)):
            if first < last:
                for batch in scan.read(bucket, first, last):
                    bad = _wrong_extras(world, batch.to_pylist(), handle.schema)
                    wrong += [f"a reader of the log has {one}" for one in bad]
                    yield from _changes(batch)


def _changes(batch: pa.RecordBatch) -> Iterator[Change]:
    yield from zip(*(batch.column(name).to_pylist() for name in (ROW_KIND_COLUMN, "id", "v")), strict=True)


def _unbalanced(table: SimulatedTable) -> Iterator[str]:
    """Records of a log with before-images whose count is neither zero nor one."""
    for number, bucket in enumerate(table.log.buckets):
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
    """The logs as text, one line per record."""
    logs = [bucket for table in world.tables for bucket in table.log.buckets]
    out = []
    for number, bucket in enumerate(logs):
        for offset, (_, _, value, header) in enumerate(bucket):
            head = decode_header(header, offset)
            about = f"of {head.ref} sign {head.sign:+d}" if head.kind == CORRECTION else ""
            about = head.extra if head.kind == COMMIT else about
            told = " ".join(f"{kind}{key}:{v}" for kind, key, v in changes_of(value))
            out.append(f"{number}:{offset:<4} {head.kind} {head.writer} {head.epoch} {head.attempt[:6]} {told} {about}")
    return out
