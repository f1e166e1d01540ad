"""Heals one bucket of a log: reads the region, appends what the plan asks for, until it asks for nothing (RFC 2, step
3).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.io.clock import sleep
from lakelog.io.logs import fields
from lakelog.io.metrics import METER, log_errors
from lakelog.io.names import random_fraction
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, Records
from lakelog.logstore.protocol.header import CORRECTION, DATA, encode_header
from lakelog.logstore.protocol.healing_plan import Correction, Healing, Later
from lakelog.options.metrics import COMPENSATIONS

_LOG: Final = logging.getLogger("lakelog.heal")

_ROUNDS = 100
"""Rounds after which somebody else must be healing against us."""

_PATIENT_ROUNDS = 3
_LONGEST_PAUSE_S = 0.1
"""From the third round on a healer pauses at random, longer each time, so that of several one gets through."""


def heal(reader: LogReader, appender: LogAppender, bucket: int, since: int, healing: Healing) -> int:
    """Makes the bucket from ``since`` on equal to the decision; returns the verified offset.

    May be interrupted anywhere and repeated. What the log no longer holds is left as it is. Raises Unavailable, Fenced
    when another process has taken over the writer, or when it does not come to rest because two heal with different
    decisions. A process that finds itself replaced behind its own corrections heals those first.
    """
    replaced: Fenced | None = None
    region = RECORDS_SCHEMA.empty_table()
    position = max(since, reader.first_offsets([bucket])[bucket])
    gone = range(0 if healing.was_taken_over else since, position)
    for number in range(_ROUNDS):
        if number >= _PATIENT_ROUNDS:
            sleep(min(_LONGEST_PAUSE_S, 0.001 * 2**number) * random_fraction())
        region, position = _read_on(reader, bucket, region, position)
        try:
            corrections = healing.plan(region, gone)
        except Fenced as why:
            if not number:
                raise
            replaced, healing = why, replace(healing, later=Later.OPEN)
            corrections = healing.plan(region, gone)
        if not corrections and replaced is not None:
            raise replaced
        if not corrections:
            return healing.verified(region, position)
        with log_errors(healing.table, "append"):
            appender.append(bucket, _records(healing.writer, corrections))
            appender.flush()
        METER.add(COMPENSATIONS, len(corrections), table=healing.table)
        told = fields(table=healing.table, bucket=bucket, writer=healing.writer, rows=len(corrections))
        _LOG.info("bucket %d of the log of %s: %d corrections", bucket, healing.table, len(corrections), extra=told)
    raise Fenced(
        f"bucket {bucket} of the log does not come to rest after {_ROUNDS} rounds of healing for writer "
        f"{healing.writer}: "
        f"stop other processes that write with the same checkpoint"
    )


def _read_on(reader: LogReader, bucket: int, region: pa.Table, position: int) -> tuple[pa.Table, int]:
    end = reader.end_offsets([bucket])[bucket]
    parts = [region, *reader.chunks(bucket, position, end)]
    return pa.concat_tables(parts), max(position, end)


def _records(writer: str, corrections: list[Correction]) -> Records:
    headers = [
        encode_header(DATA, writer, c.epoch, c.attempt)
        if c.is_data
        else encode_header(CORRECTION, writer, c.epoch, c.attempt, c.ref, c.sign)
        for c in corrections
    ]
    keys = pa.array([c.key for c in corrections], pa.large_binary())
    return Records(keys, pa.array([c.value for c in corrections], pa.large_binary()), headers)
