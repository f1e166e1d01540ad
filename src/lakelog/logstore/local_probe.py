"""Probe of a log that needs no server: checks that its storage keeps an append."""

from __future__ import annotations

import pyarrow as pa

from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogLocation, LogProblem, LogServer, LogSystem, Records

_SLOW_MS = 50.0


def probe(system: LogSystem, location: LogLocation, name: str) -> LogServer:
    """Creates a log at an unused path, appends a record, reads it and drops the log. Raises Unavailable."""
    made = system.create(location)
    try:
        appender, reader = system.appender(made), system.reader(made)
        begun = monotonic_s()
        appender.append(0, Records(pa.nulls(1, pa.large_binary()), pa.array([b"1"], pa.large_binary()), b""))
        appender.flush()
        millis = (monotonic_s() - begun) * 1000
        rows = reader.read(0, 0).num_rows
        appender.close()
        reader.close()
    finally:
        system.drop(made)
    problems = []
    if rows != 1:
        problems.append(LogProblem("a record that was appended is not there", "take a local disk, not a network one"))
    if millis > _SLOW_MS:
        problems.append(LogProblem(f"an append takes {millis:.0f} ms", "take a local disk that syncs faster"))
    return LogServer(name, {"one append": f"{millis:.1f} ms"}, tuple(problems))
