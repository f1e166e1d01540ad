"""The factory of a log system of a package outside of lakelog."""

from __future__ import annotations

from dataclasses import replace

from lakelog.logstore.embedded import EMBEDDED
from lakelog.logstore.factory import SERVER

JOURNAL = replace(
    EMBEDDED,
    name="journal",
    system="others_log_system:Journal",
    schemes=("journal",),
    file="journal/records.sqlite",
    properties={"journal.mirror": SERVER},
)
