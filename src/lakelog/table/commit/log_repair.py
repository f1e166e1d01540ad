"""Makes what a writer has in the log equal to its decisions, bucket by bucket (RFC 2, step 3; RFC 11)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakelog.errors import NotFound
from lakelog.io.clock import now_ms
from lakelog.logstore.base import LogLocation
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import LOG_ONLY, Header
from lakelog.logstore.protocol.healer import heal
from lakelog.logstore.protocol.healing_plan import Healing, Later
from lakelog.options.log import DATA_FORMAT
from lakelog.table.commit.committed_rows import committed_values, logged_values
from lakelog.table.log.lease_keeper import drop_lease, keep_lease
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import BATCH, Lease
from lakelog.table.model.waiting_epochs import waiting_epochs


@dataclass(frozen=True)
class LogRepair:
    """The repair of one writer's records: ``accepted`` are its decided attempts by epoch.

    ``later`` says what becomes of records of epochs that are not decided; ``was_taken_over`` is as in ``Healing``.
    """

    table: DynamicTable
    log: LogLocation
    writer: str
    accepted: Mapping[int, frozenset[str]]
    later: Later = Later.FENCED
    was_taken_over: bool = False

    def repair(self, bucket: int, start: int, late: frozenset[bytes] = frozenset()) -> int:
        """Heals a bucket from an offset on; returns the verified offset. Raises Unavailable, Fenced.

        ``late`` are keys with a -U that may have come behind the insertion that replaces it (``late_keys``).
        """
        healing = self._healing(bucket, start, late)
        return heal(reader_for(self.log), appender_for(self.log), bucket, start, healing)

    def _healing(self, bucket: int, start: int, late: frozenset[bytes]) -> Healing:
        table, reader = self.table, reader_for(self.log)
        form = log_format(table.options.need(DATA_FORMAT))

        def lookup(keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
            if table.emits_files:
                return committed_values(table, keys)
            return logged_values(reader, form, bucket, start, keys)

        return Healing(
            writer=self.writer,
            accepted=self.accepted,
            table=table.name,
            mode=table.changelog_mode,
            keyed=table.schema.is_keyed,
            format=form,
            lookup=lookup,
            is_open=_is_open(table),
            later=self.later,
            own_first=not table.emits_files,
            late=late,
            was_taken_over=self.was_taken_over,
        )


def was_forgotten(table: DynamicTable, writer: str, results: Sequence[AttemptResult]) -> bool:
    """Whether a batch writer was forgotten since it appended these rows.

    A later task may have registered it again: then rows of earlier ones lie before its origin. Raises Unavailable.
    """
    try:
        origin = table.registered.origin(writer)
    except NotFound:
        return True
    return any(part.first_offset < origin.get(part.bucket, 0) for r in results for part in r.appends)


def take_back_late(table: DynamicTable, writer: str, epoch: int, results: Sequence[AttemptResult]) -> None:
    """Takes back what a batch writer has appended that is forgotten: some of it behind what others have looked at.

    It is registered meanwhile, so that somebody else does it should this process end. When a later task has registered
    it again, all that lies behind that origin is taken back, too. Raises Unavailable, Fenced.
    """
    if table.log is None:
        return
    firsts: dict[int, int] = {}
    with contextlib.suppress(NotFound):
        firsts.update(table.registered.origin(writer))
    for part in (p for r in results for p in r.appends):
        firsts[part.bucket] = min(part.first_offset, firsts.get(part.bucket, part.first_offset))
    table.registered.register(writer, firsts, Lease(BATCH, now_ms()))
    keep_lease(table, writer, BATCH)
    repair = LogRepair(table, table.log, writer, {epoch: frozenset()}, Later.REFUSED, was_taken_over=True)
    for bucket, first in firsts.items():
        repair.repair(bucket, first)
    drop_lease(table, writer)
    table.registered.forget(writer)


def _is_open(table: DynamicTable) -> Callable[[Header], bool]:
    """Whether a record of another writer belongs to an epoch that its writer will decide, or that is to be taken back.

    Looks at the writers when it is asked first, which is behind the decision that is healed: an epoch that comes
    before it in the chain is known by then. Records that no file will have, and those of no writer, have the order of
    the log.
    """
    newest: dict[str, int] = {}
    at_work: set[str] = set()

    def is_open(header: Header) -> bool:
        if not header.writer or header.attempt.startswith(LOG_ONLY):
            return True
        if not at_work:
            newest.update(waiting_epochs(table).newest())
            at_work.update(["", *(name for name, found in table.registered.all().items() if found.is_open)])
        return header.writer in at_work and header.epoch > newest.get(header.writer, -1)

    return is_open
