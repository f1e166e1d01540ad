"""Common parts of the logs without a server: default retention, errors, and a probe of their storage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidOption, OffsetExpired
from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogLocation, LogProblem, LogServer, LogSystem, Records
from lakelog.options.log import LOG_ADDRESS, LOG_ADOPT

RETENTION_MS: Final = round(timedelta(days=7).total_seconds() * 1000)
"""Default retention, that of Kafka's brokers."""
_SLOW_MS = 50.0


def expiry_of(location: LogLocation, floors: Mapping[int, int], now_ms: int) -> tuple[int, Mapping[int, int] | None]:
    """The time before which records expire, and the offsets below which; None: a retention given goes by age alone.

    An expiry gives the time of the storage, so that no machine whose clock is ahead deletes young records.
    """
    if location.retention_ms is not None:
        return now_ms - location.retention_ms, None
    return now_ms - RETENTION_MS, floors


def no_topic(location: str) -> InvalidOption:
    """The error for a table that is to adopt a topic, and has its log in a file."""
    return InvalidOption(
        f"option '{LOG_ADOPT.key}' = 'true' needs a topic on a server, and the log is {location}: set "
        f"'{LOG_ADDRESS.key}' to the servers of the topic"
    )


def expired(bucket: int, start: int, first: int) -> OffsetExpired:
    """The error for a read before the first retained offset."""
    return OffsetExpired(
        f"offset {start} of bucket {bucket} is no longer in the log; the first offset is {first}. Start at 'earliest', "
        "or read the files ('read.mode'='file'), which have all rows"
    )


def probe(system: LogSystem, location: LogLocation, name: str) -> LogServer:
    """Creates a log at an unused path, appends a record, reads it and drops the log. Raises Unavailable."""
    log = system.create(location)
    try:
        appender, reader = system.appender(log), system.reader(log)
        started = monotonic_s()
        appender.append(0, Records(pa.nulls(1, pa.large_binary()), pa.array([b"1"], pa.large_binary()), b""))
        appender.flush()
        millis = (monotonic_s() - started) * 1000
        rows = reader.read(0, 0).num_rows
        appender.close()
        reader.close()
    finally:
        system.drop(log)
    problems = []
    if rows != 1:
        problems.append(LogProblem("an appended record is missing", "take a local disk, not a network one"))
    if millis > _SLOW_MS:
        problems.append(LogProblem(f"an append takes {millis:.0f} ms", "use a local disk with faster fsync"))
    return LogServer(name, {"one append": f"{millis:.1f} ms"}, tuple(problems))
