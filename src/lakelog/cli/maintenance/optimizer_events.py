"""Output of ``lakelog optimize``: one line per run, and on a terminal a bar for each active run."""

from __future__ import annotations

import contextlib
import csv
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import datetime

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lakelog.io.quantities import format_bytes
from lakelog.service.optimizer.optimizer import Event
from lakelog.table.maintenance.run_history import Run


class ShownEvents:
    """Prints events as they arrive, from any thread: ended runs on stdout, troubles on stderr.

    ``bars`` shows the active runs on a terminal.
    """

    def __init__(self, format_name: str, bars: Progress | None = None) -> None:
        self._format, self._bars = format_name, bars
        self._lock = threading.Lock()
        self._shown: dict[str, TaskID] = {}
        self._has_header = self._has_inspected = False

    def show(self, event: Event) -> None:
        """Prints one event."""
        with self._lock:
            if event.kind == "ended" and event.run is not None:
                self._forget(event.table)
                self._print(event.run)
            elif event.kind == "failed":
                self._echo(f"{event.table}: {event.text}", err=True)
            elif event.kind == "inspected" and not self._has_inspected:
                self._has_inspected = True
                count = "1 table" if event.total == 1 else f"{event.total:,} tables"
                self._echo(f"maintaining {count}", err=True)
            elif self._bars is not None and event.run is not None:
                self._move(self._bars, event, event.run)

    def _print(self, run: Run) -> None:
        if self._format == "jsonl":
            self._echo(orjson.dumps(asdict(run)).decode())
        elif self._format == "csv":
            with self._paused():
                writer = csv.DictWriter(sys.stdout, [f.name for f in fields(Run)], lineterminator="\n")
                if not self._has_header:
                    writer.writeheader()
                self._has_header = True
                writer.writerow(asdict(run))
                sys.stdout.flush()
        else:
            self._echo(run_line(run))

    def _echo(self, text: str, err: bool = False) -> None:
        with self._paused():
            click.echo(text, err=err)

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        """Context in which the bars are hidden, for other output."""
        if self._bars is None:
            yield
            return
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()

    def _move(self, bars: Progress, event: Event, run: Run) -> None:
        if event.table not in self._shown:
            self._shown[event.table] = bars.add_task(f"{run.kind} {run.table}", total=None)
        if event.total:
            bars.update(self._shown[event.table], completed=event.done, total=event.total)

    def _forget(self, table: str) -> None:
        if self._bars is not None and table in self._shown:
            self._bars.remove_task(self._shown.pop(table))


@contextlib.contextmanager
def shown_runs(format_name: str) -> Iterator[ShownEvents]:
    """Context with a printer of an optimizer's events; with bars if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ShownEvents(format_name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield ShownEvents(format_name, bars)


def run_line(run: Run) -> str:
    """A run as one line."""
    when = datetime.fromtimestamp(run.started_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
    text = f"{when} {run.table} {run.kind} {run.outcome} in {run.seconds:.1f} s"
    if run.files_before and run.snapshot is not None:
        sizes = f"{format_bytes(run.bytes_before)}) became {run.files_after} ({format_bytes(run.bytes_after)})"
        text += f", snapshot {run.snapshot}: {run.files_before} files ({sizes}"
    details = "; ".join(part for part in (run.detail, f"because {run.reason}") if part)
    return f"{text}: {details}"
