"""Publishes the changes between snapshots to a log with ``log.content`` = changes (RFC 14).

The publisher is one logical writer. Its epochs are the links in ``table/model/published_links.py``. A link decides
which attempt's records lead from one snapshot to the next. Any process may publish at any time; a lease only
saves work.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import CommitConflict, CommitUnknown, Corrupt, LakelogError, NotFound, Unavailable
from lakelog.io.lease import Leases
from lakelog.io.logs import fields
from lakelog.io.metrics import METER, log_errors
from lakelog.io.names import new_attempt
from lakelog.logstore.base import LogLocation, PendingAppend, Records
from lakelog.logstore.protocol.control_records import begin_record, commit_record
from lakelog.logstore.protocol.header import DATA, encode_header
from lakelog.logstore.protocol.healer import heal
from lakelog.logstore.protocol.healing_plan import Healing, Later
from lakelog.options.metrics import BYTES_WRITTEN, ROWS_WRITTEN
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, kinds_from_text
from lakelog.table.log.clients import appender_of, reader_of
from lakelog.table.log.record_schemas import RecordSchemas
from lakelog.table.maintenance.state_changes import id_of, state_changes
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.published_links import PublishedLink, PublishedLinks, fingerprint_of
from lakelog.table.read.committed_rows import CommittedRows

_LOG: Final = logging.getLogger("lakelog.publish")
PUBLISHER: Final = "publisher"
"""The writer in the headers of published records."""
_ROUNDS: Final = 1000
_WAIT_S: Final = 10.0
"""Maximum time that a process waits for another one that publishes."""
_FLUSH_ROWS: Final = 100_000


def publish(table: DynamicTable) -> bool:
    """Brings the log to the newest snapshot; returns whether it had to append rows.

    Does nothing for other tables. Called after each commit and by maintenance. Raises the errors of ``publishing`` and
    ``Publication.run``.
    """
    if not table.publishes:
        return False
    with publishing(table) as publication:
        return publication.run()


@contextlib.contextmanager
def publishing(table: DynamicTable) -> Iterator[Publication]:
    """The right to publish, for the duration of the block.

    Raises Unavailable if another process keeps it, CommitConflict if the table has no log any more (RFC 27).
    """
    table = DynamicTable(table.location).with_newest_schema()
    if not table.publishes:
        raise CommitConflict(f"the log of table {table.name} was removed: open the table again")
    leases = Leases(table.io, f"{table.store.paths.branch_root}/lakelog/publish")
    busy = Unavailable(f"the log of table {table.name} is being written by another process: it publishes later")
    with leases.holding("log", _WAIT_S, busy):
        yield Publication(table)


def publish_best_effort(table: DynamicTable) -> None:
    """``publish`` after a commit; a failure is only logged, because the rows are in the table. The next one retries."""
    try:
        publish(table)
    except LakelogError as failure:
        about = fields(table=table.name)
        _LOG.warning("table %s: changes are not in the log yet: %s", table.name, failure, extra=about)


class Publication:
    """One run of the publisher.

    1 finish the newest link: append its commit markers, heal the log to it · 2 if the files are further, append the
    changes · 3 decide: create the next link if absent · again from 1, until the newest link has no rows and leads to
    the newest snapshot. The first link of a log that ALTER TABLE has added leads to the newest snapshot, without rows
    (RFC 27). Every step may be repeated by any process. Records of an attempt that no link names are taken
    back in step 1.
    """

    def __init__(self, table: DynamicTable) -> None:
        log = table.log
        assert log is not None
        self._table, self._links = table, PublishedLinks.of(table)
        self._log: LogLocation = log
        self._format = table.record_format

    def run(self) -> bool:
        """Brings the log to the newest snapshot; returns whether it had to append rows.

        Raises Unavailable, and Corrupt if the snapshot that the log adds up to no longer exists.
        """
        has_appended = False
        for _ in range(_ROUNDS):
            # 1
            link = self._links.last()
            base = self._snapshot_of(link)
            verified = self._finish(link, base)
            if self._links.last().number != link.number:
                continue
            target = self._table.store.latest_snapshot()
            is_done = link.is_at(target)
            begins = not link.number and self._table.log_generation > 0  # a log that ALTER TABLE has added
            if is_done and not link.attempt and not begins:
                self._links.forget_before(link)
                return has_appended
            # 2
            link_of_changes = PublishedLink() if is_done or begins else self._append(link.number + 1, base, target)
            has_appended = has_appended or bool(link_of_changes.attempt)
            # 3
            following = PublishedLink(
                number=link.number + 1,
                base=link.snapshot if link_of_changes.attempt else id_of(target),
                snapshot=id_of(target),
                since=verified,
                attempt=link_of_changes.attempt,
                firsts=link_of_changes.firsts,
                entries=link_of_changes.entries,
                mark=fingerprint_of(target),
            )
            self._table.check_identity()
            with contextlib.suppress(CommitUnknown):  # the next round reads which link there is
                self._links.create(following)
        raise Unavailable(f"the log of table {self._table.name} does not come to rest: stop other processes that write")

    def _snapshot_of(self, link: PublishedLink) -> Snapshot | None:
        """The snapshot that a link leads to. Raises Corrupt if it no longer exists."""
        if not link.snapshot:
            return None
        with contextlib.suppress(NotFound):
            snapshot = self._table.store.snapshot(link.snapshot)
            if link.is_at(snapshot):
                return snapshot
        raise Corrupt(
            f"the log of table {self._table.name} adds up to snapshot {link.snapshot}, which no longer exists, so its "
            f"next changes are unknown: another engine has expired or rolled back the snapshot. The rows are in the "
            f"files; recreate the table (CREATE TABLE … AS SELECT) to write to a log again"
        )

    def _finish(self, link: PublishedLink, state: Snapshot | None) -> dict[int, int]:
        """Appends the commit markers of a link and heals the log to it; returns the verified offsets by bucket."""
        reader, appender = reader_of(self._table, self._log), appender_of(self._table, self._log)
        markers = {
            bucket: appender.append(bucket, commit_record(PUBLISHER, link.number, [link.attempt], first)).entries
            for bucket, first in sorted(link.firsts.items())
        }
        with log_errors(self._table.name, "append"):
            appender.flush()
        out: dict[int, int] = {}
        for bucket, end in reader.end_offsets().items():
            start = link.since.get(bucket, 0)
            if start > end:
                raise NotFound(
                    f"the log of table {self._table.name} ends at offset {end} in bucket {bucket}, but it was written "
                    f"up to {start}: it is an older copy, or has lost its end. Put the newer log back"
                )
            expected = link.entries.get(bucket, 0) + markers.get(bucket, 0)
            is_quiet = reader.entries(bucket, start, end) == expected
            out[bucket] = (
                end if is_quiet else heal(reader, appender, bucket, start, self._healing(link, state)).verified
            )
        return out

    def _healing(self, link: PublishedLink, state: Snapshot | None) -> Healing:
        table, committed = self._table, CommittedRows(self._table)

        def lookup(keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
            return committed.values(keys, 0 if state is None else state)

        return Healing(
            writer=PUBLISHER,
            accepted={link.number: frozenset([link.attempt] if link.attempt else [])},
            mode=table.changelog_mode,
            keyed=table.schema.is_keyed,
            format=self._format,
            lookup=lookup,
            translate=committed.translate,
            table=table.name,
            later=Later.REFUSED,
        )

    def _append(self, number: int, before: Snapshot | None, after: Snapshot | None) -> PublishedLink:
        """Appends the changes between two snapshots; an empty attempt if there are none."""
        attempt = new_attempt()
        appender = appender_of(self._table, self._log)
        begun: dict[int, PendingAppend] = {}
        entries: dict[int, int] = {}
        rows = unflushed = size = 0
        with log_errors(self._table.name, "append"), self._table.explained():
            for bucket, batch in state_changes(self._table, before, after):
                parts = [] if bucket in begun else [(bucket, begin_record(PUBLISHER, number, attempt))]
                parts += self._encoded(number, attempt, bucket, batch)
                pending = appender.append_all(parts)
                begun.setdefault(bucket, pending[0])
                entries[bucket] = entries.get(bucket, 0) + sum(p.entries for p in pending)
                size += sum(part.values.nbytes for _, part in parts)
                rows, unflushed = rows + batch.num_rows, unflushed + batch.num_rows
                if unflushed >= _FLUSH_ROWS:
                    appender.flush()
                    unflushed = 0
            appender.flush()
        if not begun:
            return PublishedLink()
        METER.add(ROWS_WRITTEN, rows, table=self._table.name, store="log")
        METER.add(BYTES_WRITTEN, size, table=self._table.name, store="log")
        firsts = {bucket: int(pending.offsets()[0].as_py()) for bucket, pending in begun.items()}
        return PublishedLink(attempt=attempt, firsts=firsts, entries=entries)

    def _encoded(self, number: int, attempt: str, bucket: int, batch: pa.RecordBatch) -> Iterator[tuple[int, Records]]:
        table = self._table
        header = encode_header(DATA, PUBLISHER, number, attempt, schema=RecordSchemas(table).own_id)
        kinds = kinds_from_text(batch.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN).to_numpy()
        rows, places = batch.select(table.schema.field_names), {bucket: np.arange(batch.num_rows)}
        keys = table.schema.primary_keys
        messages = self._format.messages(rows, kinds, table.changelog_mode, keys, header, places)
        yield from ((bucket, m.records) for m in messages.values())


def published_from(table: DynamicTable) -> int | None:
    """The oldest snapshot that the log and its readers need; None if the log does not follow the files."""
    if not table.publishes:
        return None
    link = PublishedLinks.of(table).last()
    return min((number for number in (link.base, link.snapshot) if number), default=None)
