"""Packs: many records in one message, because Pulsar's cost is per message, and their offsets.

A **pack** is one message: a stream of one Arrow batch with the columns ``key`` and ``value`` (large binary), and
``header`` (binary) if its records have separate headers. Its property ``lakelog-pack`` is
``<version>|<records>|<changes>``, its property ``lakelog`` the header that all its records share. Any Arrow
implementation can read it. A message without the first property is one record, of any producer.

An offset has 62 bits and increases with the log:

=======  ====  ==============================================================================
ledger   27    ledgers since the first one of the log (134 million)
entry    22    entries of the ledger (4.2 million)
index    13    index of the record in its entry, ``changes`` numbers for each record (8,192)
=======  ====  ==============================================================================

A number beyond these limits raises an error and never maps to another record's offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.io.arrow_messages import MIB, UnpackLimit, check_plain
from lakelog.logstore.base import RECORDS_SCHEMA, Records
from lakelog.logstore.protocol.header import HEADER_KEY
from lakelog.options.formats import PULSAR_PACK

PACK_KEY: Final = "lakelog-pack"
_ENTRY_BITS: Final = 22
_INDEX_BITS: Final = 13
_LEDGERS: Final = 1 << 27
_ENTRIES: Final = 1 << _ENTRY_BITS
_INDEXES: Final = 1 << _INDEX_BITS

_MOST_RECORDS: Final = 4096
_MOST_BYTES: Final = 256 * 1024
"""Maximum size of a pack in bytes; a single record may be larger."""
_LIMIT: Final = UnpackLimit(rows=_INDEXES, size=32 * MIB)


@dataclass(frozen=True, order=True)
class Entry:
    """An entry of a log: its ledger, counted from the log's first one, and its number in it (-1: before the first)."""

    ledger: int
    number: int

    @property
    def next(self) -> Entry:
        """The next entry in its ledger."""
        return Entry(self.ledger, self.number + 1)

    @property
    def before(self) -> Entry:
        """The previous entry in its ledger."""
        return Entry(self.ledger, self.number - 1)

    def offset(self, index: int = 0) -> int:
        """The offset of an index in the entry. Raises UnsupportedFeature if it exceeds the range of offsets."""
        if not 0 <= self.ledger < _LEDGERS:
            raise UnsupportedFeature(
                f"ledger {self.ledger} after the first one of the log exceeds the {_LEDGERS} ledgers that an offset "
                "can address: recreate the table with a new log"
            )
        if not 0 <= self.number < _ENTRIES or not 0 <= index < _INDEXES:
            raise UnsupportedFeature(
                f"entry {self.number} of a ledger (record {index}) exceeds the {_ENTRIES} entries of {_INDEXES} "
                "records that an offset can address: configure the broker to start ledgers sooner "
                "(managedLedgerMaxEntriesPerLedger, managedLedgerMinLedgerRolloverTimeMinutes)"
            )
        return ((self.ledger << _ENTRY_BITS | self.number) << _INDEX_BITS) | index


def entry_of(offset: int) -> Entry:
    """The entry that contains an offset."""
    position = offset >> _INDEX_BITS
    return Entry(position >> _ENTRY_BITS, position & (_ENTRIES - 1))


def entries_between(start: int, end: int) -> int | None:
    """The number of entries between two offsets; None within an entry, or across ledgers."""
    first, last = entry_of(start), entry_of(end)
    if first.ledger != last.ledger or (start | end) & (_INDEXES - 1):
        return None
    return last.number - first.number


@dataclass(frozen=True)
class Message:
    """A message to send: its bytes (None: a null value), its properties, its number of records, and its own key."""

    content: bytes | None
    properties: dict[str, str]
    count: int
    key: str | None = None

    @property
    def size(self) -> int:
        """The size of its content in bytes."""
        return len(self.content or b"")


def single(records: Records) -> Iterator[Message]:
    """The records as a message each, which any client can read, in order."""
    headers = repeat(records.headers) if isinstance(records.headers, bytes) else records.headers
    for number, (key, value, header) in enumerate(zip(records.keys, records.values, headers, strict=False)):
        own, content = key.as_py(), value.as_py()
        try:
            text = None if own is None else own.decode()
        except UnicodeDecodeError:
            text = ""
        if text == "" or content == b"":  # a message cannot have these, so a pack of one has them
            yield _message(records, number, number + 1)
        else:
            yield Message(content, {HEADER_KEY: header.decode("ascii")}, 1, text)


def packed(records: Records) -> Iterator[Message]:
    """The records as packs, in order."""
    sizes = pc.add(pc.fill_null(pc.binary_length(records.keys), 0), pc.fill_null(pc.binary_length(records.values), 0))
    ends = np.cumsum(sizes.to_numpy(zero_copy_only=False))
    most = min(_MOST_RECORDS, max(1, _INDEXES // records.changes))
    start = 0
    while start < len(records):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _MOST_BYTES, side="right"))
        end = min(max(fitting, start + 1), start + most, len(records))
        yield _message(records, start, end)
        start = end


def _message(records: Records, start: int, end: int) -> Message:
    columns = {"key": records.keys.slice(start, end - start), "value": records.values.slice(start, end - start)}
    properties = {PACK_KEY: f"{PULSAR_PACK}|{end - start}|{records.changes}"}
    if isinstance(records.headers, bytes):
        properties[HEADER_KEY] = records.headers.decode("ascii")
    else:
        columns["header"] = pa.array(records.headers[start:end], pa.binary())
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Message(sink.getvalue().to_pybytes(), properties, end - start)


@dataclass(frozen=True)
class Pack:
    """A received message: ``first`` is the offset of its first record, the others follow in steps of ``changes``.

    ``key`` is the key of a message with a single record.
    """

    first: int
    count: int
    changes: int
    timestamp_ms: int
    header: bytes | None
    key: bytes | None
    content: bytes | None
    is_packed: bool

    @property
    def offsets(self) -> np.ndarray:
        """The offsets of its records."""
        return self.first + self.changes * np.arange(self.count, dtype=np.int64)

    @property
    def last(self) -> int:
        """The offset of its last record."""
        return self.offset(self.count - 1)

    def offset(self, number: int) -> int:
        """The offset of one of its records."""
        return self.first + self.changes * number

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return 200 + len(self.content or b"")

    def before(self, offset: int) -> int:
        """The number of its records before an offset."""
        return int(np.clip(-((self.first - offset) // self.changes), 0, self.count))

    def columns(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Its keys, values and headers. Raises Corrupt."""
        if not self.is_packed:
            one = pa.array([self.key], pa.large_binary()), pa.array([self.content], pa.large_binary())
            return *one, pa.array([self.header], pa.binary())
        try:
            _LIMIT.check(self.content or b"")
            with pa.ipc.open_stream(self.content) as stream:
                check_plain(stream.schema)
                batch = stream.read_next_batch()
            keys, values = batch.column("key"), batch.column("value")
            own = "header" in batch.schema.names
            headers = batch.column("header") if own else pa.repeat(pa.scalar(self.header, pa.binary()), self.count)
        except (pa.ArrowException, KeyError, StopIteration) as failed:
            raise Corrupt(f"log message at offset {self.first} is damaged: {failed}") from failed
        if len(keys) != self.count or len(headers) != self.count:
            raise Corrupt(f"log message at offset {self.first} declares {self.count} records, but has {len(keys)}")
        return keys, values, headers


def pack_of(
    entry: Entry,
    batch_index: int,
    timestamp_ms: int,
    properties: dict[str, str],
    key: bytes | None,
    content: bytes | None,
) -> Pack:
    """A received message. ``batch_index`` is its index in a batch of another producer's client, or -1.

    Raises Corrupt for an unknown pack version, UnsupportedFeature if it exceeds the range of offsets.
    """
    header = properties[HEADER_KEY].encode("utf-8", "replace") if HEADER_KEY in properties else None
    pack = properties.get(PACK_KEY)
    first = entry.offset(max(0, batch_index))
    if pack is None:
        return Pack(first, 1, 1, timestamp_ms, header, key, content or None, False)
    version, _, rest = pack.partition("|")
    count, _, changes = rest.partition("|")
    if version != PULSAR_PACK or not count.isdigit() or not changes.isdigit() or int(changes) < 1 or batch_index > 0:
        raise Corrupt(
            f"log message at offset {first} has {PACK_KEY} {pack!r}; this lakelog reads version {PULSAR_PACK}: upgrade "
            "lakelog, or check that the topic is lakelog's alone"
        )
    entry.offset((int(count) - 1) * int(changes))
    return Pack(first, int(count), int(changes), timestamp_ms, header, None, content, True)


def unpacked(parts: Sequence[tuple[Pack, int, int]]) -> pa.Table:
    """The records (RECORDS_SCHEMA) of packs in order, from one number to another of each pack. Raises Corrupt."""
    if not parts:
        return RECORDS_SCHEMA.empty_table()
    columns = [[column.slice(start, end - start) for column in pack.columns()] for pack, start, end in parts]
    keys, values, headers = (pa.chunked_array([part[n] for part in columns]) for n in range(3))
    offsets = np.concatenate([pack.offsets[start:end] for pack, start, end in parts])
    times = np.repeat([pack.timestamp_ms for pack, _, _ in parts], [end - start for _, start, end in parts])
    arrays = [pa.chunked_array([pa.array(offsets)]), pa.chunked_array([pa.array(times, pa.int64())]), keys, values]
    return pa.Table.from_arrays([*arrays, headers], schema=RECORDS_SCHEMA)
