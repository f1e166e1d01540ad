"""Late rows: records that a suspended process appends after another process has taken its writer over (RFC 11).

No decision accepts them and no driver heals them. The process that finds them registers their writer again with an
expired lease. ``take_over`` then takes them back as those of any dead writer.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import polars as pl
import pyarrow as pa
from cachetools import LRUCache

from lakelog.errors import Corrupt
from lakelog.io.logs import fields
from lakelog.logstore.clients import reader_for
from lakelog.logstore.protocol.header import CORRECTION, DATA, LOG_ONLY
from lakelog.table.log.position import headers_of
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import BATCH, Lease
from lakelog.table.model.waiting_epochs import waiting_epochs

_LOG: Final = logging.getLogger("lakelog.heal")
_READ: Final[dict[tuple[str, int], int]] = {}
"""Table and bucket → offset below which this process has searched for late rows."""
_FOUND_LATE: Final[LRUCache[tuple[str, int, str, int], None]] = LRUCache(10_000)
"""Table, bucket, attempt and its last offset: the late rows that this process has found.

In a log in ``upsert`` mode no correction follows rows whose keys another writer has written since.
"""


def find_late_rows(table: DynamicTable) -> None:
    """Searches the log of a table at rest for late rows, and registers their writers as dead.

    Called by maintenance, before it takes over from dead writers. It reads a bucket only if the bucket has more entries
    than the newest snapshot expects, and each record once per process. While a writer is active, its own healing finds
    the late rows. A bucket with a record that cannot be read is left out, with a warning. Raises Unavailable.
    """
    if (
        table.log is None
        or table.publishes
        or any(r.is_open and r.lease.is_alive for r in table.registered.all().values())
    ):
        return
    reader, state = reader_for(table.log), waiting_epochs(table).state
    firsts, ends = reader.first_offsets(), reader.end_offsets()
    for bucket, end in ends.items():
        sealed, key = state.offsets.get(bucket, 0), (table.identity.key, bucket)
        start = max(sealed, _READ.get(key, 0), firsts[bucket])
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
        _READ[key] = end


def register_late_writers(table: DynamicTable, bucket: int, records: pa.Table, healed: str = "") -> None:
    """Registers the writers of late rows among these records (RECORDS_SCHEMA) again, with an expired lease.

    Also called with the records that a healing has read; ``healed`` is its writer. Rows are late if no decision accepts
    them, no registered writer is open for them, and no correction follows. Raises Unavailable.
    """
    left = _not_corrected(headers_of(records), healed)
    if not left:
        return
    registered, found = table.registered.all(), waiting_epochs(table)
    for writer, epoch, attempt, last in left:
        known, decision = registered.get(writer), found.find(writer, epoch)
        settled = {} if known is None else known.lease.settled or {}
        is_judged = last < max(found.state.offsets.get(bucket, 0), settled.get(bucket, 0))
        is_awaited = known is not None and known.is_open
        seen = table.identity.key, bucket, attempt, last
        if is_judged or is_awaited or (decision is not None and attempt in decision.accepted) or seen in _FOUND_LATE:
            continue
        _FOUND_LATE[seen] = None
        if known is not None:
            table.registered.write_lease(writer, replace(known.lease, settled=None))
        elif table.log is not None:
            ends = reader_for(table.log).end_offsets()
            starts = {b: found.state.offsets.get(b, 0) for b in ends}
            table.registered.register(writer, starts, Lease(BATCH, 0))


def _not_corrected(headers: pl.DataFrame, healed: str) -> list[tuple[str, int, str, int]]:
    """(Writer, epoch, attempt, offset of its last row) of the attempts that no correction follows."""
    others = headers.filter(~pl.col("writer").is_in(["", healed]))
    if others.is_empty():
        return []
    last = pl.col("offset").filter(pl.col("kind") == DATA).max()
    corrected = pl.col("offset").filter(pl.col("kind") == CORRECTION).max()
    found = (
        others.lazy()
        .filter(~pl.col("attempt").str.starts_with(LOG_ONLY))
        .group_by("writer", "epoch", "attempt")
        .agg(last=last, corrected=corrected)
        .filter(pl.col("corrected").fill_null(-1) < pl.col("last"))
        .select("writer", "epoch", "attempt", "last")
        .collect()
    )
    return found.rows()
