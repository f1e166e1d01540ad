"""Healing of one bucket: reads the region and appends the planned corrections until none remains (RFC 2, step 3)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.io.clock import pause
from lakelog.io.logs import fields
from lakelog.io.metrics import METER, log_errors
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, Records
from lakelog.logstore.protocol.header import CORRECTION, DATA, encode_header, has_corrections, newest_epoch
from lakelog.logstore.protocol.healing_plan import Correction, Healing, Later
from lakelog.options.metrics import COMPENSATIONS

_LOG: Final = logging.getLogger("lakelog.heal")

_ROUNDS = 100
"""Maximum rounds; more rounds mean that another process heals with a different decision."""

_ROUNDS_WITHOUT_PAUSE = 3
"""Maximum random pause from the third round on, which increases so that one of several healers succeeds."""


@dataclass(frozen=True)
class Healed:
    """A healed bucket: ``verified`` is the start of the next healing, ``counted`` the end of the judged region.

    ``verified`` is lower if the region contains records that only a later healing judges. ``corrected`` means that the
    region has corrections of the writer's records. ``newest`` is the newest epoch of its rows there, known only for a
    take-back (else, or without rows, -1).
    """

    verified: int
    counted: int
    corrected: bool = False
    newest: int = -1


def heal(reader: LogReader, appender: LogAppender, bucket: int, since: int, healing: Healing) -> Healed:
    """Makes the bucket from ``since`` on match the decision; returns the verified offset.

    Healing can be interrupted at any point and repeated. It ignores expired records. Raises Unavailable. Raises Fenced
    if another process has taken over the writer, or if two processes heal with different decisions. A process that is
    fenced after it appended corrections heals those first.
    """
    replaced: Fenced | None = None
    region = RECORDS_SCHEMA.empty_table()
    position = max(since, reader.first_offsets([bucket])[bucket])
    expired = range(0 if healing.was_taken_over else since, position)
    for number in range(_ROUNDS):
        if number >= _ROUNDS_WITHOUT_PAUSE:
            pause(number, first_s=0.0005, longest_s=0.05)
        region, position = _read_on(reader, bucket, region, position)
        try:
            corrections = healing.plan(region, expired)
        except Fenced as why:
            if not number:
                raise
            replaced, healing = why, replace(healing, later=Later.OPEN)
            corrections = healing.plan(region, expired)
        if not corrections and replaced is not None:
            raise replaced
        if not corrections:
            healing.watch(region)
            headers, writer = region.column("header"), healing.writer
            newest = newest_epoch(headers, writer) if healing.later is Later.REFUSED else -1  # it reads each header
            return Healed(healing.verified(region, position), position, has_corrections(headers, writer), newest)
        healing.confirm()
        with log_errors(healing.table, "append"):
            appender.append(bucket, _records(healing.writer, corrections))
            appender.flush()
        METER.add(COMPENSATIONS, len(corrections), table=healing.table)
        about = fields(table=healing.table, bucket=bucket, writer=healing.writer, rows=len(corrections))
        _LOG.info("bucket %d of the log of %s: %d corrections", bucket, healing.table, len(corrections), extra=about)
    raise Fenced(
        f"bucket {bucket} of the log still changes after {_ROUNDS} rounds of healing for writer {healing.writer}: "
        "stop other processes that write with the same checkpoint"
    )


def _read_on(reader: LogReader, bucket: int, region: pa.Table, position: int) -> tuple[pa.Table, int]:
    end = reader.end_offsets([bucket])[bucket]
    parts = [region, *reader.chunks(bucket, position, end)]
    return pa.concat_tables(parts), max(position, end)


def _records(writer: str, corrections: list[Correction]) -> Records:
    headers = [
        encode_header(DATA, writer, c.epoch, c.attempt, schema=c.schema)
        if c.is_data
        else encode_header(CORRECTION, writer, c.epoch, c.attempt, c.ref, c.sign, schema=c.schema)
        for c in corrections
    ]
    keys = pa.array([c.key for c in corrections], pa.large_binary())
    return Records(keys, pa.array([c.value for c in corrections], pa.large_binary()), headers)
