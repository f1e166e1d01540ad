"""Options for rejected rows: whether a write fails, skips or keeps them, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

KEEP: Final = "keep"
FAIL: Final = "fail"
SKIP: Final = "skip"

ON_BAD_RECORD: Final = Option(
    "on-bad-record",
    str,
    FAIL,
    "Action of a follower, a stream, a pipe, an ingest or a writer on a row that it cannot read or that does not fit "
    "the table. fail stops with an error; skip omits the row and counts it; keep stores it in t$rejected, exactly "
    "once with the rest of its epoch.",
    scope=("table", "write"),
    choices=(FAIL, SKIP, KEEP),
)
REJECTED_RETENTION: Final = Option(
    "rejected.retention",
    timedelta,
    timedelta(days=7),
    "Maximum age of a row in t$rejected, from the decision of its epoch. Older rows are hidden and deleted.",
)

REJECTED_OPTIONS: Final[tuple[Option[Any], ...]] = (ON_BAD_RECORD, REJECTED_RETENTION)
