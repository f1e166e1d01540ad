"""``lakelog optimize``: keeps tables healthy, once or until it is stopped."""

from __future__ import annotations

import contextlib
import csv
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final

import click
import orjson
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.cli.console.process import SCREEN, Process
from lakelog.errors import InvalidOption
from lakelog.io.quantities import format_bytes
from lakelog.lake import Lake
from lakelog.options.option import parse_duration, parse_size
from lakelog.options.registry import Registry
from lakelog.service.optimizer.optimizer import Event, Optimizer
from lakelog.service.optimizer.watcher import OptimizerSettings
from lakelog.table.health.actions import KINDS
from lakelog.table.maintenance.run_history import FAILED, Run

_SESSIONS: Final[Registry[Any]] = Registry("session", {"spark": "lakelog.spark.session.session:session_at"})
_PLAN: Final = pa.schema(
    [
        ("table", pa.string()),
        ("kind", pa.string()),
        ("urgency", pa.int64()),
        ("reason", pa.string()),
        ("what_to_do", pa.string()),
    ]
)


def _seconds(context: click.Context, parameter: click.Parameter, text: str) -> float:
    try:
        if text.strip().isdigit():
            raise ValueError(f"'{text}' has no unit: write '{text} s'")
        return parse_duration(text).total_seconds()
    except ValueError as why:
        raise click.BadParameter(str(why)) from None


def _bytes(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_size(text)
    except ValueError as why:
        raise click.BadParameter(str(why)) from None


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]…", shell_complete=complete_tables)
@click.option("--once", is_flag=True, help="Run the pending maintenance once and exit; 1 if a run fails.")
@click.option("--dry-run", is_flag=True, help="Print the planned runs and their reasons only.")
@click.option("--interval", default="30 s", show_default=True, callback=_seconds, help="Interval between table checks.")
@click.option(
    "--parallel", type=click.IntRange(min=1), default=2, show_default=True, help="Maximum number of concurrent runs."
)
@click.option(
    "--max-bytes-per-hour",
    metavar="SIZE",
    callback=_bytes,
    help="Maximum bytes that compactions read per hour, such as '10 gb'.",
)
@click.option("--run-time", default="10 min", show_default=True, callback=_seconds,
              help="Time limit per run. Unfinished work resumes in the next run.")  # fmt: skip
@click.option("--only", "kinds", multiple=True, type=click.Choice(KINDS), help="Run only this kind; repeatable.")
@click.option("--spark", "on_spark", is_flag=True, help="Start a local Spark session and compact on its executors.")
@click.option("--master", metavar="URL", help="Compact on this Spark cluster (spark://host:7077).")
@click.option("--remote", metavar="URL", help="Compact on this Spark Connect server (sc://host:15002).")
@warehouse_option
@format_option
@click.pass_obj
def optimize(
    process: Process | None,
    tables: tuple[str, ...],
    once: bool,
    dry_run: bool,
    interval: float,
    parallel: int,
    max_bytes_per_hour: int | None,
    run_time: float,
    kinds: tuple[str, ...],
    on_spark: bool,
    master: str | None,
    remote: str | None,
    warehouse: str,
    format_name: str,
) -> int:
    """Maintain TABLE (db.table), or all tables, until Ctrl-C or SIGTERM: compaction, expiry, cleaning, healing.

    Each run prints one line, or one JSON object with --format jsonl, and is recorded in t$runs. Several optimizers on
    any machines may maintain the same tables.
    """
    settings = OptimizerSettings(tables, kinds or KINDS, interval, parallel, max_bytes_per_hour, run_time)
    with _lake(process, warehouse, on_spark, master, remote) as lake:
        if dry_run:
            return _run_events(Optimizer(lake, settings), format_name)
        executor = lake.executor(start=True) if on_spark or master or remote else None
        optimizer = Optimizer(lake, settings, ShownEvents(format_name).show, executor)
        with _stopping(optimizer):
            if once:
                failed = any(run.outcome == FAILED for run in optimizer.once())
                return 1 if failed or optimizer.state().troubles else 0
            optimizer.serve()
    return 0


def _lake(process: Process | None, warehouse: str, on_spark: bool, master: str | None, remote: str | None) -> Lake:
    if sum((on_spark, master is not None, remote is not None)) > 1:
        raise InvalidOption("--spark, --master and --remote exclude each other: give one")
    if process is not None and (on_spark or master or remote):
        process.silence_children()
    session = _SESSIONS.load("spark")(master, remote) if master or remote else None
    return connect(session, warehouse=warehouse)


@contextlib.contextmanager
def _stopping(optimizer: Optimizer) -> Iterator[None]:
    """Makes the first SIGTERM or SIGINT stop the optimizer at the next safe point, and a second SIGINT at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: Any) -> None:
        optimizer.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_events(optimizer: Optimizer, format_name: str) -> int:
    """Prints the planned runs; returns 1 if a table could not be read."""
    plan = optimizer.plan()
    rows = [(s.table, n.kind, n.urgency, n.reason, n.what_to_do) for s in plan for n in s.needs]
    rows.sort(key=lambda row: -row[2])
    columns = zip(*rows, strict=True) if rows else ([] for _ in _PLAN)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _PLAN, strict=True)]
    PRINTERS[format_name]().print_result([pa.Table.from_arrays(arrays, schema=_PLAN)])
    failed = [one for one in plan if one.failure]
    for one in failed:
        click.echo(f"{one.table}: {one.failure}", err=True)
    return 1 if failed else 0


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
