"""The history of maintenance runs of a table: one small JSON file per run next to the table, the newest 200 of them.

``<table>/lakelog/runs/<started ms, 15 digits>-<kind>-<id>.json``. The name alone has time and kind, so that finding the
last run of a kind only needs a listing. Readers of the format and orphan cleaning do not read this directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import Corrupt, NotFound
from lakelog.io.clock import now_ms
from lakelog.io.machine import has_ended, process_space
from lakelog.io.names import new_attempt
from lakelog.io.storage.file_io import FileIO
from lakelog.options.notebook import NotebookView, time_text
from lakelog.paimon.types.json_record import JsonRecord

RUNNING: Final = "running"
DONE: Final = "done"
NOTHING: Final = "nothing to do"
STOPPED: Final = "stopped"
WAITS: Final = "waits"
FAILED: Final = "failed"
DIED: Final = "died"

MOST_RUNS: Final = 200
"""Number of records of a table to keep; the newest of each kind always stays."""
_SILENT_MS: Final = 24 * 3_600_000
_NAME: Final = re.compile(r"(\d{15})-([a-z-]+)-([0-9a-f]{16})\.json")


@dataclass(frozen=True)
class Run(NotebookView, JsonRecord):
    """One run of maintenance. Times are ms since 1970.

    ``files`` and ``bytes`` count the replaced or removed files (before), and the new ones (after). ``outcome`` is
    ``running``, ``done``, ``nothing to do``, ``stopped`` (at a safe point; finished work counts), ``waits`` (``detail``
    is the reason), ``failed`` (``detail`` is the error) or ``died`` (its process ended without a record; the next run
    continues). ``machine`` is the host name and an identifier of its current boot.
    """

    table: str
    kind: str
    reason: str
    started_ms: int
    machine: str = ""
    process: int = 0
    seconds: float = 0.0
    outcome: str = RUNNING
    detail: str = ""
    snapshot: int | None = None
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    id: str = ""

    def notebook_facts(self) -> Mapping[str, object]:
        """Start, kind, outcome, and what the run has done."""
        return {
            "started": time_text(self.started_ms),
            "kind": self.kind,
            "reason": self.reason,
            "outcome": self.outcome,
            "detail": self.detail,
            "seconds": f"{self.seconds:.1f}",
            "snapshot": None if self.snapshot is None else str(self.snapshot),
            "files": f"{self.files_before:,} → {self.files_after:,}",
        }

    @property
    def host(self) -> str:
        """The name of the machine."""
        return self.machine.partition("/")[0]

    @staticmethod
    def begun(table: str, kind: str, reason: str, now_ms: int) -> Run:
        """A run of this process that starts now."""
        return Run(table, kind, reason, now_ms, process_space(), os.getpid(), id=new_attempt())

    def with_current_outcome(self) -> Run:
        """The run with its current outcome; it has died if its process here has ended, or if it is a day old."""
        if self.outcome != RUNNING:
            return self
        if has_ended(self.machine, self.process):
            return replace(self, outcome=DIED, detail=f"process {self.process} has ended")
        if now_ms() - self.started_ms > _SILENT_MS:
            return replace(self, outcome=DIED, detail="no process has reported its end for a day")
        return self


@dataclass(frozen=True)
class Runs:
    """The runs of one table."""

    io: FileIO
    table_path: str

    @property
    def directory(self) -> str:
        return f"{self.table_path}/lakelog/runs"

    def record(self, run: Run) -> None:
        """Writes a run, at its start and at its end; then deletes the oldest. Raises Unavailable."""
        self.io.write(self._path(run), run.to_json())
        if run.outcome != RUNNING:
            self._forget()

    def remove(self, run: Run) -> None:
        """Deletes a run that had nothing to do."""
        self.io.delete(self._path(run))

    def list(self, limit: int | None = None, kind: str | None = None) -> Sequence[Run]:
        """The newest ``limit`` runs, of one kind or of all, the newest first. Raises Unavailable."""
        out: list[Run] = []
        for run in self._newest(kind):
            if limit is not None and len(out) >= limit:
                break
            out.append(run)
        return out

    def last_completed_ms(self, kind: str) -> int | None:
        """The start of the last run of a kind that finished; None if there is none."""
        return next((run.started_ms for run in self._newest(kind) if run.outcome in (DONE, NOTHING)), None)

    def _newest(self, kind: str | None) -> Iterator[Run]:
        for name, match in sorted(self._names().items(), reverse=True):
            if kind in (None, match):
                run = self._read(name)
                if run is not None:
                    yield run

    def _read(self, name: str) -> Run | None:
        try:
            return Run.from_json(self.io.read(f"{self.directory}/{name}")).with_current_outcome()
        except (NotFound, Corrupt):
            return None  # deleted in the meantime, or of a later version

    def _path(self, run: Run) -> str:
        return f"{self.directory}/{run.started_ms:015d}-{run.kind}-{run.id}.json"

    def _names(self) -> dict[str, str]:
        """The names of the files, and the kind of each."""
        matches = ((status.name, _NAME.fullmatch(status.name)) for status in self.io.list(self.directory))
        return {name: match[2] for name, match in matches if match is not None}

    def _forget(self) -> None:
        kinds = self._names()
        newest: dict[str, str] = {}
        for name in sorted(kinds):
            newest[kinds[name]] = name
        for name in sorted(kinds)[: max(0, len(kinds) - MOST_RUNS)]:
            if newest[kinds[name]] != name:
                self.io.delete(f"{self.directory}/{name}")
