"""A mirror: the committed changes of a table's log as plain debezium-json in a topic, exactly once.

For logs that only lakelog reads (embedded, in files), and consumers that know nothing of lakelog. It is a copy
(``table.tail.copy``) whose sink is a topic: a transaction has rows and position (``logstore.base.LogMirror``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidOption, InvalidRequest, OffsetExpired
from lakelog.io.metrics import METER
from lakelog.io.secrets import secret_value
from lakelog.logstore import LOG_SYSTEMS, client_properties, log_factory
from lakelog.logstore.base import LogLocation, LogMirror, Records
from lakelog.logstore.factory import LogFactory
from lakelog.logstore.formats import log_format
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.log import DATA_FORMAT, EXPIRED_OFFSETS, LOG_CONSISTENCY
from lakelog.options.metrics import ROWS_MIRRORED
from lakelog.options.names import visible
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, kinds_from_text
from lakelog.table.log.partitions import by_log_partition
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.tail.copy import STARTS, CopyProgress, copy_log
from lakelog.table.tail.normalizer import normalizes
from lakelog.table.tail.subscribe import Stop

_PLAIN: Final = "debezium-json"
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,190}")
"""A name of Kafka that is short enough for the names that are made of it."""


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
) -> Iterator[CopyProgress]:
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
        properties={name: secret_value(PROPERTIES_PREFIX + name, text) for name, text in properties.items()},
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


def _run(scan: LogScan, sink: LogMirror, topic: str, start: str, stop: Stop) -> Iterator[CopyProgress]:
    try:
        sink.position()  # a topic of another table raises before any other mirror is fenced
        position = sink.begin()
        is_new = position is None
        yield from copy_log(scan, _Topic(sink), f"mirror-{topic}", position or start, stop, is_new)
    except OffsetExpired as why:
        raise OffsetExpired(
            f"the log of table {scan.table.name} has expired rows that topic '{topic}' does not have yet "
            f"({str(why).partition('. ')[0]}): delete the topic and '{topic}.position', or name another topic, and "
            "mirror the table again. Set a longer 'log-store.retention', or none, to avoid this"
        ) from why
    finally:
        sink.close()


@dataclass(frozen=True)
class _Topic:
    """The topic as the sink of a copy."""

    mirror: LogMirror

    def commit(self, table: DynamicTable, batches: Sequence[pa.RecordBatch], position: str) -> None:
        """Commits rows as plain records, and the position. Raises as ``LogMirror.commit``."""
        self.mirror.commit(_plain_records(table, batches), position)
        METER.add(ROWS_MIRRORED, sum(batch.num_rows for batch in batches), table=table.name)


def _plain_records(table: DynamicTable, batches: Sequence[pa.RecordBatch]) -> list[tuple[int, Records]]:
    """Rows as plain records, by log partition."""
    if not batches:
        return []
    (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    mode = "all" if normalizes(table) else table.changelog_mode
    form, keys = log_format(_PLAIN), table.schema.primary_keys
    out = []
    for partition, part in by_log_partition(rows, table.schema, 0, 0):
        kinds = kinds_from_text(part.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN).to_numpy(zero_copy_only=False)
        out.append((partition, form.encode(part.drop_columns([ROW_KIND_COLUMN]), kinds, mode, keys, b"")[0]))
    return out
