"""``$runs``: the maintenance runs of the table, with the process and reason of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.paimon.types.types import AtomicType
from lakelog.table.maintenance.run_history import Runs
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed


class MaintenanceRuns(MetadataTable):
    """One row per maintenance run, newest first; see ``lakelog.table.maintenance.run_history.Run``."""

    COLUMNS: ClassVar[Columns] = (
        ("kind", needed(TEXT)),
        ("outcome", needed(TEXT)),
        ("started", needed(TIME)),
        ("seconds", needed(AtomicType("DOUBLE"))),
        ("reason", needed(TEXT)),
        ("detail", needed(TEXT)),
        ("snapshot_id", LONG),
        ("files_before", needed(LONG)),
        ("files_after", needed(LONG)),
        ("bytes_before", needed(LONG)),
        ("bytes_after", needed(LONG)),
        ("host", needed(TEXT)),
        ("process", needed(LONG)),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The runs."""
        for run in Runs(self.table.io, self.table.path).list():
            what = (run.kind, run.outcome, local_time(run.started_ms), run.seconds, run.reason, run.detail)
            counts = (run.files_before, run.files_after, run.bytes_before, run.bytes_after)
            yield *what, run.snapshot, *counts, run.host, run.process
