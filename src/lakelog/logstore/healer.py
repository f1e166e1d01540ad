"""Heals one bucket of a log: reads the region, appends what the plan asks for, until it asks for nothing (RFC 2, step
3).
"""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import Fenced
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogReader, Records
from lakelog.logstore.header import CORRECTION, encode_header
from lakelog.logstore.healing import Correction, Healing

_ROUNDS = 100
"""Rounds after which somebody else must be healing against us."""


def heal(reader: LogReader, appender: LogAppender, bucket: int, since: int, healing: Healing) -> int:
    """Makes the bucket from ``since`` on equal to the decision; returns the verified offset, which is its end.

    May be interrupted anywhere and repeated. Raises Unavailable, OffsetExpired (the log was trimmed below ``since``),
    Fenced when another process has taken over the writer, or when it does not come to rest because two heal with
    different decisions.
    """
    region = RECORDS_SCHEMA.empty_table()
    position = since
    for _ in range(_ROUNDS):
        region, position = _read_on(reader, bucket, region, position)
        corrections = healing.plan(region)
        if not corrections:
            return position
        appender.append(bucket, _records(healing.writer, corrections))
        appender.flush()
    raise Fenced(
        f"bucket {bucket} of the log does not come to rest after {_ROUNDS} rounds of healing for writer "
        f"{healing.writer}: "
        f"stop other processes that write with the same checkpoint"
    )


def _read_on(reader: LogReader, bucket: int, region: pa.Table, position: int) -> tuple[pa.Table, int]:
    end = reader.end_offsets([bucket])[bucket]
    parts = [region]
    while position < end:
        part = reader.read(bucket, position, end)
        if part.num_rows == 0:
            break
        parts.append(part)
        position = part.column("offset")[part.num_rows - 1].as_py() + 1
    return pa.concat_tables(parts), max(position, end)


def _records(writer: str, corrections: list[Correction]) -> Records:
    headers = [encode_header(CORRECTION, writer, c.epoch, c.attempt, c.ref, c.sign) for c in corrections]
    keys = pa.array([c.key for c in corrections], pa.large_binary())
    return Records(keys, pa.array([c.value for c in corrections], pa.large_binary()), headers)
