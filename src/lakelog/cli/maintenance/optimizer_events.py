"""Output of ``lakelog optimize``: one line per run."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict, fields
from datetime import datetime

import click
import orjson

from lakelog.cli.console.process import SCREEN
from lakelog.io.quantities import format_bytes
from lakelog.service.optimizer.optimizer import Event
from lakelog.table.maintenance.run_history import Run


class ShownEvents:
    """Prints events as they arrive, from any thread: ended runs on stdout, troubles on stderr."""

    def __init__(self, format_name: str) -> None:
        self._format = format_name
        self._has_header = self._has_inspected = False

    def show(self, event: Event) -> None:
        """Prints one event."""
        with SCREEN.printing():
            if event.kind == "ended" and event.run is not None:
                self._print(event.run)
            elif event.kind == "failed":
                click.echo(f"{event.table}: {event.text}", err=True)
            elif event.kind == "inspected" and not self._has_inspected:
                self._has_inspected = True
                count = "1 table" if event.total == 1 else f"{event.total:,} tables"
                click.echo(f"maintaining {count}", err=True)

    def _print(self, run: Run) -> None:
        if self._format == "jsonl":
            click.echo(orjson.dumps(asdict(run)).decode())
        elif self._format == "csv":
            writer = csv.DictWriter(sys.stdout, [f.name for f in fields(Run)], lineterminator="\n")
            if not self._has_header:
                writer.writeheader()
            self._has_header = True
            writer.writerow(asdict(run))
            sys.stdout.flush()
        else:
            click.echo(run_line(run))


def run_line(run: Run) -> str:
    """A run as one line."""
    when = datetime.fromtimestamp(run.started_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
    text = f"{when} {run.table} {run.kind} {run.outcome} in {run.seconds:.1f} s"
    if run.files_before and run.snapshot is not None:
        sizes = f"{format_bytes(run.bytes_before)}) became {run.files_after} ({format_bytes(run.bytes_after)})"
        text += f", snapshot {run.snapshot}: {run.files_before} files ({sizes}"
    details = "; ".join(part for part in (run.detail, f"because {run.reason}") if part)
    return f"{text}: {details}"
