"""A mirror: the committed changes of a table's log as plain debezium-json in a topic, exactly once.

For logs that only lakelog reads (embedded, in files), and consumers that know nothing of lakelog. The mirror is a
transactional tail, so no correction reaches the topic. Each transaction of the topic has some rows and the position of
the tail after them (``logstore.base.LogMirror``), so a mirror that is killed at any moment continues with the next row.

A step of a running mirror:

1. Collect the rows that the tail returns, for a moment or up to a maximum number.
2. Read the id of the newest schema. If it is another one, discard the rows and read them again with it. Their writer
   may have used its columns: a schema exists before the first row with it, so this finds out.
3. Commit rows and position to the topic.
4. Store the position with the table, as that of a named reader, so that the log keeps the rest.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidOption, InvalidRequest, InvalidSchema, OffsetExpired
from lakelog.io.clock import monotonic_s
from lakelog.io.metrics import METER
from lakelog.logstore import LOG_SYSTEMS, client_properties, log_factory
from lakelog.logstore.base import LogLocation, LogMirror, Records
from lakelog.logstore.factory import LogFactory
from lakelog.logstore.formats import log_format
from lakelog.options.log import DATA_FORMAT, EXPIRED_OFFSETS, LOG_CONSISTENCY
from lakelog.options.metrics import ROWS_MIRRORED
from lakelog.options.names import visible
from lakelog.options.notebook import NotebookView
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, kinds_from_text
from lakelog.table.log.partitions import by_log_partition
from lakelog.table.log.position import LogPosition
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.tail.normalizer import normalizes
from lakelog.table.tail.reader_needs import NamedProgress
from lakelog.table.tail.subscribe import Stop, follow, is_set
from lakelog.table.tail.tail import Tail, TailPosition

STARTS: Final = ("latest-full", "earliest", "latest")
"""The starts of a new mirror."""
_PLAIN: Final = "debezium-json"
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,190}")
"""A name of Kafka that is short enough for the names that are made of it."""
_MOST_ROWS: Final = 100_000
"""Number of rows above which a transaction ends."""
_MOST_BYTES: Final = 64 << 20
"""Bytes of its rows above which a transaction ends: it takes a few times as much memory."""
_LONGEST_S: Final = 0.1
"""Age of its first row at which a transaction ends, even if the tail has more rows."""
_REPORT_EVERY_S: Final = 1.0
_IDLE_S: Final = 3600.0
"""Interval at which an idle mirror commits its position, so that the broker does not forget its transactional id."""


@dataclass(frozen=True)
class MirrorProgress(NotebookView):
    """The rows that a mirror has committed since its last report, and the log records that it has not read yet."""

    rows: int
    lag: int


@dataclass(frozen=True)
class MirrorAddress:
    """The parsed address of a mirror: ``kafka://host:port[,host:port]/topic``."""

    factory: LogFactory
    servers: str
    topic: str

    @staticmethod
    def parse(text: str) -> MirrorAddress:
        """The parts of an address. Raises InvalidRequest."""
        scheme, separator, rest = text.partition("://")
        servers, _, topic = rest.partition("/")
        factories: dict[str, LogFactory] = {n: f for n, f in LOG_SYSTEMS.importable().items() if f.mirror}
        known = " or ".join(f"{name}://host:9092/topic" for name in factories)
        if "@" in text:  # not shown, because it may be a password
            raise InvalidRequest(
                f"the address of a mirror cannot have a user or a password: write it as {known}, and use client "
                "properties"
            )
        if not separator or scheme not in factories or not all(servers.split(",")):
            raise InvalidRequest(f"'{visible(text)}' is not the address of a mirror: write it as {known}")
        if not _TOPIC.fullmatch(topic):
            raise InvalidRequest(
                f"'{visible(topic)}' cannot be the topic of a mirror: a name has 1 to 190 letters, digits, '.', '_' "
                f"and '-', after the servers, like {scheme}://{visible(servers)}/topic"
            )
        return MirrorAddress(factories[scheme], servers, topic)


def mirror_log(
    table: DynamicTable, to: str, start: str, stop: Stop, properties: Mapping[str, str]
) -> Iterator[MirrorProgress]:
    """Mirrors a log, without end, up to an event, or up to the current end of the log (``stop='latest'``).

    ``start`` counts if the topic has no position yet. ``properties`` are those of the topic's client. Yields the
    progress about once a second while rows arrive, and at the end. Raises InvalidRequest (address, topic, a table
    without such a log), InvalidOption, OffsetExpired, Fenced (another mirror of the topic), TableReplaced, Unavailable.
    """
    target = MirrorAddress.parse(to)
    scan = _scan(table)
    if start not in STARTS:
        raise InvalidRequest(f"start={start!r} is not known; use {', '.join(STARTS)}")
    if (scan.location.system, scan.location.topic) == (target.factory.name, target.topic):
        raise InvalidRequest(
            f"topic '{target.topic}' has the name of the log of table {scan.table.name}, and rows of a mirror would "
            "damage it: name another topic"
        )
    _check_client(properties)
    place = LogLocation(
        target.factory.name,
        target.servers,
        target.topic,
        scan.location.buckets,
        owner=table.identity.text,
        properties=dict(properties),
    )
    return _run(scan, target.factory.open_mirror(place), target.topic, start, stop)


def _scan(table: DynamicTable) -> LogScan:
    """The read of committed rows. Raises InvalidRequest for a log that is missing or plain already."""
    scan = LogScan(table.with_hints({LOG_CONSISTENCY.key: "transactional", EXPIRED_OFFSETS.key: "error"}))
    factory = log_factory(scan.location.system)
    if factory.speaks_kafka and table.options.need(DATA_FORMAT) == _PLAIN:
        raise InvalidRequest(
            f"the log of table {table.name} is plain already: consumers can read {factory.describe(scan.location)}"
        )
    return scan


def _check_client(properties: Mapping[str, str]) -> None:
    known = client_properties()
    for key in properties:
        if key not in known:
            raise InvalidOption(f"'{visible(key)}' is not a client property that a mirror can have: remove it")


def _run(scan: LogScan, sink: LogMirror, topic: str, start: str, stop: Stop) -> Iterator[MirrorProgress]:
    try:
        sink.position()  # a topic of another table raises before any other mirror is fenced
        position = sink.begin()
        run = _MirrorRun(scan, sink, topic, is_new=position is None)
        position = position or start
        while position:
            position = yield from run.steps(position, stop)
    except OffsetExpired as why:
        raise OffsetExpired(
            f"the log of table {scan.table.name} has expired rows that topic '{topic}' does not have yet "
            f"({str(why).partition('. ')[0]}): delete the topic and '{topic}.position', or name another topic, and "
            "mirror the table again. Set a longer 'log-store.retention', or none, to avoid this"
        ) from why
    finally:
        sink.close()


@dataclass
class _Collected:
    """The rows of the next transaction, in order."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    since_s: float = 0.0

    def add(self, batch: pa.RecordBatch) -> None:
        self.since_s = self.since_s if self.batches else monotonic_s()
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    @property
    def is_full(self) -> bool:
        """True if the transaction should end, but not between the old and the new row of an update."""
        is_large = self.rows >= _MOST_ROWS or self.bytes >= _MOST_BYTES
        is_due = is_large or monotonic_s() > self.since_s + _LONGEST_S
        return bool(self.rows) and is_due and self.batches[-1].column(ROW_KIND_COLUMN)[-1].as_py() != "-U"

    def records(self, table: DynamicTable) -> list[tuple[int, Records]]:
        """The rows as plain records, by log partition."""
        if not self.rows:
            return []
        (rows,) = pa.Table.from_batches(self.batches).combine_chunks().to_batches()
        mode = "all" if normalizes(table) else table.changelog_mode
        form, keys = log_format(_PLAIN), table.schema.primary_keys
        out = []
        for partition, part in by_log_partition(rows, table.schema, 0, 0):
            kinds = kinds_from_text(part.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN).to_numpy(zero_copy_only=False)
            out.append((partition, form.encode(part.drop_columns([ROW_KIND_COLUMN]), kinds, mode, keys, b"")[0]))
        return out


class _MirrorRun:
    """A mirror in one process. ``is_new`` is True if the topic has no position yet."""

    def __init__(self, scan: LogScan, sink: LogMirror, topic: str, is_new: bool) -> None:
        self._scan, self._sink, self._name, self._is_new = scan, sink, f"mirror-{topic}", is_new
        self._kept: NamedProgress | None = None
        self._first: Mapping[int, int] = {}
        self._committed_s, self._reported_s, self._unreported = monotonic_s(), monotonic_s(), 0
        self._position, self._committed = "", TailPosition(LogPosition({}))

    def steps(self, start: str, stop: Stop) -> Generator[MirrorProgress, None, str]:
        """The steps with one schema; returns the position to continue with after an ALTER TABLE, "" at the end."""
        tail = follow(self._scan, start, stop)
        self._position, self._committed = tail.position, tail.reached
        if self._kept is None:
            self._kept = NamedProgress(self._scan.table, self._name, tail.reached.log)
        self._keep(tail)
        if self._is_new:
            self._commit(tail, _Collected())
            self._is_new = False
        # 1
        collected, is_ended = _Collected(), False
        while not is_ended:
            before = tail.reached
            try:
                batch = tail.step()
            except StopIteration:
                batch, is_ended = None, True
            except InvalidSchema:
                if self._is_altered():
                    return self._position
                raise
            if batch is not None:
                collected.add(batch)
            is_idle = batch is None and (is_ended or tail.reached == before)
            if collected.is_full or (is_idle and self._must_commit(tail, collected, is_ended)):
                # 2
                if self._is_altered():
                    return "" if is_set(stop) else self._position
                # 3
                self._commit(tail, collected)
                collected = _Collected()
            # 4
            self._keep(tail, is_ended)
            if is_ended or (self._unreported and monotonic_s() > self._reported_s + _REPORT_EVERY_S):
                yield self._progress(tail)
        return ""

    def _must_commit(self, tail: Tail, collected: _Collected, is_ended: bool) -> bool:
        """True if there are rows, or if the position has passed records without rows for so long that they expire.

        Also true after a long time without a commit.
        """
        idle_s = monotonic_s() - self._committed_s
        is_old = is_ended or idle_s > self._scan.location.note_every_s
        return bool(collected.rows) or (is_old and tail.reached != self._committed) or idle_s > _IDLE_S

    def _commit(self, tail: Tail, collected: _Collected) -> None:
        position = tail.position
        self._sink.commit(collected.records(self._scan.table), position)
        self._position, self._committed, self._committed_s = position, tail.reached, monotonic_s()
        self._unreported += collected.rows
        METER.add(ROWS_MIRRORED, collected.rows, table=self._scan.table.name)

    def _is_altered(self) -> bool:
        """Takes the newest schema; True if it is another one."""
        newest = self._scan.table.with_newest_schema()
        is_other = newest is not self._scan.table
        if is_other:
            self._scan = replace(self._scan, table=newest)
        return is_other

    def _keep(self, tail: Tail, is_last: bool = False) -> None:
        """Stores the committed position, so that the log and its first snapshot stay."""
        assert self._kept is not None
        if tail.reached == self._committed:
            self._first = tail.needs
        self._kept.keep(self._committed.log, self._first, is_last)

    def _progress(self, tail: Tail) -> MirrorProgress:
        offsets, ends = tail.reached.log.offsets, self._scan.reader.end_offsets()
        done = MirrorProgress(self._unreported, sum(max(0, ends[b] - offsets.get(b, 0)) for b in ends))
        self._unreported, self._reported_s = 0, monotonic_s()
        return done
