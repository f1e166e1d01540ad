"""Late records: those that a suspended process appends after another process has taken its writer over (RFC 11).

No decision accepts late rows and no driver heals them. A late correction repeats what another process has done. The
process that finds them registers their writer again with an expired lease. ``take_over`` then takes them back as those
of any dead writer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.errors import Corrupt, LakelogError, NotFound
from lakelog.io.logs import fields
from lakelog.logstore.base import RECORDS_SCHEMA, LogLocation
from lakelog.logstore.clients import reader_for
from lakelog.logstore.protocol.control_records import accepted_by
from lakelog.logstore.protocol.header import COMMIT, CORRECTION, DATA, LOG_ONLY
from lakelog.table.log.position import headers_of
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.registrations import BATCH, Registration
from lakelog.table.model.waiting_epochs import WaitingEpochs, waiting_epochs

_LOG: Final = logging.getLogger("lakelog.heal")
_Late = tuple[str, int, str, int, int, bool]
"""Writer, epoch and attempt of late records, the offset of the first one, that of the last one or of its last
correction, and whether a seal has judged the records without it."""

_MOST_WAITING: Final = 20_000
"""Records that a search keeps until the next seal."""


def find_late_rows(table: DynamicTable) -> None:
    """Searches the log of a table at rest for late rows, and registers their writers as dead.

    Called by maintenance, before it takes over from dead writers. It reads a bucket only if the bucket has more entries
    than the newest snapshot expects, and each record once per process, but again while a dead writer or an epoch waits:
    a record that arrives during a take-over or a seal is late only after it. While a writer is active, its own healing
    finds the late rows. A bucket with a record that cannot be read is left out, with a warning. Raises Unavailable.
    """
    open_writers = [r for r in table.registered.all().values() if r.is_open]
    if table.log is None or table.publishes or any(r.is_alive for r in open_writers):
        return
    reader, epochs = reader_for(table.log), waiting_epochs(table)
    state = epochs.state
    firsts, ends = reader.first_offsets(), reader.end_offsets()
    searched = table.identity.memory.late_searched
    for bucket, end in ends.items():
        sealed = state.offsets.get(bucket, 0)
        start = max(sealed, searched.get(bucket, 0), firsts[bucket])
        if start < end and reader.entries(bucket, sealed, end) != state.markers.get(bucket, 0):
            try:
                for records in reader.chunks(bucket, start, end):
                    register_late_writers(table, bucket, records)
            except Corrupt as why:
                about = fields(table=table.name, bucket=bucket)
                _LOG.warning(
                    "bucket %d of the log of %s: late rows not found: %s", bucket, table.name, why, extra=about
                )
                continue
        if not open_writers and not epochs.waiting:
            searched[bucket] = end


def forget_writer(
    table: DynamicTable, writer: str, offsets: Mapping[int, int], entries: Mapping[int, int] | None = None
) -> None:
    """Forgets a writer whose records below these offsets are right, and searches the records after them.

    Other processes took a row or a correction that arrived since for one of an open writer, and do not search it again
    (RFC 22). A bucket with no more than these ``entries`` after its offset, which are of this process, is not read. If
    the search fails, the writer is left to the next take-over, which reads all of its records. Raises Unavailable.
    """
    table.registered.forget(writer)
    if table.log is None or not offsets:
        return
    try:
        reader = reader_for(table.log)
        firsts, ends = reader.first_offsets(list(offsets)), reader.end_offsets(list(offsets))
        for bucket, offset in offsets.items():
            start = max(offset, firsts[bucket])
            if reader.entries(bucket, start, ends[bucket]) != (entries or {}).get(bucket, 0):
                for records in reader.chunks(bucket, start, ends[bucket]):
                    register_late_writers(table, bucket, records)
    except LakelogError as why:  # its rows are in the table already
        about = fields(table=table.name, writer=writer)
        _LOG.warning("table %s: late rows after writer %s not searched: %s", table.name, writer, why, extra=about)
        with contextlib.suppress(LakelogError):
            table.registered.register(writer, dict.fromkeys(offsets, 0), BATCH)


def register_late_writers(table: DynamicTable, bucket: int, records: pa.Table, healed: str = "") -> None:
    """Registers the writers of late rows among these records (RECORDS_SCHEMA) again, with an expired lease.

    Also called with the records that a healing has read; ``healed`` is its writer. Rows are late if no decision and no
    commit record accepts them, no registered writer is open for them, and they are not taken back, or not once. So are
    rows before the origin of a batch or a dead writer. The origin is lowered, because a live batch may die after these
    records were sealed. A correction is late if the seal of its writer has judged the record that it names. Raises
    Unavailable.
    """
    _register(table, bucket, headers_of(records).filter(_is_others(healed)))


class LateRowSearch:
    """Records that healings of some writers have read, which are searched for late rows together, before a seal.

    Whoever seals the last epoch of a writer heals it before, and reads the same records. So a search that is dropped,
    because another process has sealed, or because this one ends, is made by the other one. It does not read those of
    the epochs before the last again, so a writer searches these before it decides the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[int, list[tuple[str, pa.Table]]] = {}
        self._waiting = 0

    def add(self, table: DynamicTable, bucket: int, records: pa.Table, healed: str) -> None:
        """Keeps records (RECORDS_SCHEMA) that the healing of a writer has read; searches at once if it holds many."""
        if records.num_rows:
            with self._lock:
                self._parts.setdefault(bucket, []).append((healed, records.select(["offset", "header"])))
                self._waiting += records.num_rows
        if self._waiting > _MOST_WAITING:
            self.run(table)

    def add_between(self, table: DynamicTable, epochs: WaitingEpochs, records: Sequence[EpochRecord]) -> None:
        """Keeps the records after the newest snapshot that no healing of the epochs of ``records`` has read.

        Called before a seal, because no later search reads them. Usually only the control records of the last seal are
        there, and nothing is read. Raises Unavailable.
        """
        if table.log is None or not table.emits_log or table.publishes:
            return
        reader, ends = reader_for(table.log), dict[int, int]()
        for bucket, since in (part for record in records for part in record.since.items()):
            ends[bucket] = min(since, ends.get(bucket, since))
        for bucket, end in ends.items():
            start = epochs.state.offsets.get(bucket, 0)
            if start < end and reader.entries(bucket, start, end) != epochs.state.markers.get(bucket, 0):
                for part in reader.chunks(bucket, max(start, reader.first_offsets([bucket])[bucket]), end):
                    self.add(table, bucket, part, "")

    def run(self, table: DynamicTable) -> None:
        """Searches the records as ``register_late_writers`` does those of each healing.

        Raises Unavailable; then the next call searches them.
        """
        parts = self.take()
        try:
            for bucket, read in parts.items():
                records = pa.concat_tables(part for _, part in read)
                _, first = np.unique(records.column("offset").to_numpy(), return_index=True)
                headers = headers_of(records.take(first))  # once, however many healings have read them
                searched = [_is_others(healed) & pl.col("offset").is_between(*_ends(part)) for healed, part in read]
                _register(table, bucket, headers.filter(pl.any_horizontal(searched)))
        except BaseException:
            with self._lock:
                for bucket, read in parts.items():
                    self._parts.setdefault(bucket, []).extend(read)
            raise

    def take(self) -> dict[int, list[tuple[str, pa.Table]]]:
        """Removes the records from the search; returns them by bucket, with the writers that were healed."""
        with self._lock:
            parts, self._parts, self._waiting = self._parts, {}, 0
        return parts


def _is_others(healed: str) -> pl.Expr:
    return ~pl.col("writer").is_in(["", healed]) & ~pl.col("attempt").str.starts_with(LOG_ONLY)


def _ends(records: pa.Table) -> tuple[int, int]:
    offsets = records.column("offset").to_numpy()
    return int(offsets[0]), int(offsets[-1])


def _register(table: DynamicTable, bucket: int, headers: pl.DataFrame) -> None:
    """``register_late_writers`` with the parts of the headers of the records."""
    if table.log is None or headers.filter(pl.col("kind").is_in([DATA, CORRECTION])).is_empty():
        return
    registered, epochs = table.registered.all(), waiting_epochs(table)
    late = _unbalanced(headers, epochs, bucket)
    unknown = [row for row in late if row[0] not in registered and not row[-1]]
    if unknown:  # other records of it may be elsewhere, or its commit record newer than these
        late = [row for row in late if row not in unknown]
        names, start = [row[0] for row in unknown], min(row[3] for row in unknown)
        late += _unbalanced(_headers_of(table.log, bucket, start, names), epochs, bucket, is_whole=True)
    lowest: dict[str, int] = {}
    for writer, _, _, ref, _, _ in late:
        lowest[writer] = min(ref, lowest.get(writer, ref))
    handled = table.identity.memory.late_rows
    for writer, _, attempt, ref, last, _ in sorted(late):
        known, seen = registered.get(writer), (bucket, attempt, last)
        origin = {} if known is None or (known.is_alive and not known.is_batch) else _origin(table, writer, known)
        is_before = ref < origin.get(bucket, 0)  # a later task of a batch has registered it again
        settled = {} if known is None else known.settled or {}
        is_found = known is not None and (known.is_open or last < settled.get(bucket, 0))
        if seen in handled or (is_found and not is_before):
            continue
        handled[seen] = None
        starts = {b: epochs.state.offsets.get(b, 0) for b in range(table.log.buckets)}
        starts[bucket] = min(starts[bucket], lowest[writer])
        if known is None:
            if not table.registered.register(writer, starts, BATCH):
                _lower(table, writer, starts)
            continue
        if is_before:
            _lower(table, writer, starts)
        was_forgotten = is_before and table.registered.find(writer) is None  # by another process, meanwhile
        if known.settled is not None or was_forgotten:
            table.registered.write_lease(writer, known.kind)


def _lower(table: DynamicTable, writer: str, starts: Mapping[int, int]) -> None:
    """Lets the rows of a registered writer begin at these offsets, unless they begin before."""
    origin: Mapping[int, int] = {}
    with contextlib.suppress(NotFound):
        origin = table.registered.origin(writer)
    table.registered.lower(writer, {b: min(start, origin.get(b, start)) for b, start in starts.items()})


def _headers_of(log: LogLocation, bucket: int, start: int, writers: Sequence[str]) -> pl.DataFrame:
    """The headers of all records of some writers from an offset on."""
    reader = reader_for(log)
    start = max(start, reader.first_offsets([bucket])[bucket])
    chunks = reader.chunks(bucket, start, reader.end_offsets([bucket])[bucket])
    parts = [headers_of(records).filter(pl.col("writer").is_in(writers)) for records in chunks]
    return pl.concat(parts) if parts else headers_of(RECORDS_SCHEMA.empty_table())


def _origin(table: DynamicTable, writer: str, known: Registration) -> Mapping[int, int]:
    """Where the rows of a writer begin, nothing if it was forgotten meanwhile. That of a live one is read once."""
    origins, key = table.identity.memory.origins, (writer, known.time_ms)
    origin = origins.get(key) if known.is_alive else None
    if origin is None:
        try:
            origin = origins[key] = table.registered.origin(writer)
        except NotFound:
            return {}
    return origin


def _unbalanced(headers: pl.DataFrame, epochs: WaitingEpochs, bucket: int, is_whole: bool = False) -> list[_Late]:
    """The attempts with records that are late, or that late corrections name.

    A record of an accepted attempt counts 1, any other 0: the record itself and the signs of its corrections add up to
    that. If they do not, it was not taken back, or twice, by a process that was suspended before its correction and has
    not read the log again. When a writer is sealed, the count of each of its records below ``verified`` is right, with
    all corrections below ``counted``; so only the later corrections of such a record are added. An assertion (sign 0)
    takes the rows of its attempt before it back as a whole. Unless the headers are the whole ones of a writer, all its
    corrected records that no seal has judged may be wrong.
    """
    seals = [
        (writer, verified := sealed.verified.get(bucket, 0), max(verified, sealed.counted.get(bucket, 0)))
        for writer, sealed in epochs.state.writers.items()
    ]
    judged = pl.LazyFrame(seals, {"writer": pl.String, "verified": pl.Int64, "counted": pl.Int64}, orient="row")
    is_data, ref, attempt = pl.col("kind") == DATA, pl.col("ref"), ("writer", "epoch", "attempt")
    is_sealed = ref < pl.col("verified").fill_null(0)
    asserted = pl.col("offset").filter(~is_data & (pl.col("sign") == 0)).max().over(attempt)
    is_wrong = pl.col("sign") != pl.when("is_sealed").then(0).otherwise(pl.col("accepted").fill_null(0))
    is_unsure = ~pl.col("is_known") & pl.col("is_corrected") & (not is_whole)
    return (
        headers.lazy()
        .filter(pl.col("kind").is_in([DATA, CORRECTION]))
        .with_columns(
            ref=pl.when(is_data).then("offset").otherwise("ref"), sign=pl.when(is_data).then(1).otherwise("sign")
        )
        .with_columns(asserted=asserted)
        .filter(pl.col("sign") != 0)
        .join(judged, on="writer", how="left")
        .filter(~is_sealed | (~is_data & (pl.col("offset") >= pl.col("counted"))))
        .with_columns(is_sealed=is_sealed, is_known=pl.col("verified").is_not_null())
        .group_by(*attempt, "ref")
        .agg(
            pl.col("sign").sum(),
            pl.col("is_sealed", "is_known").any(),
            last=pl.col("offset").max(),
            has_row=is_data.any(),
            is_corrected=(~is_data).any(),
            asserted=pl.col("asserted").max().fill_null(-1),
        )
        .join(_accepted(headers, epochs), on=attempt, how="left")
        .filter(is_unsure | (is_wrong & (pl.col("has_row") | pl.col("is_sealed"))), pl.col("asserted") < pl.col("last"))
        .group_by(*attempt)
        .agg(ref.min(), pl.col("last").max(), pl.col("is_sealed").any())
        .collect()
        .rows()
    )


def _accepted(headers: pl.DataFrame, epochs: WaitingEpochs) -> pl.LazyFrame:
    """The attempts that a decision accepts, or a commit record among these."""
    writers = set(headers["writer"])
    rows = [(r.writer, r.epoch, a, 1) for r in (*epochs.waiting, *epochs.sealed) for a in r.accepted]
    for writer, epoch, extra in headers.filter(kind=COMMIT).select("writer", "epoch", "extra").rows():
        rows += [(writer, epoch, name, 1) for name in accepted_by(extra)]
    schema = {"writer": pl.String, "epoch": pl.Int64, "attempt": pl.String, "accepted": pl.Int64}
    return pl.LazyFrame([row for row in set(rows) if row[0] in writers], schema, orient="row")
