"""Commands that follow the log of a table."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect, warehouse_config
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import PRINTERS, FactPrinter, format_option, limit_option, warehouse_option
from lakelog.cli.console.process import ended_by_signals
from lakelog.errors import InvalidRequest
from lakelog.table.tail.copy import STARTS, CopyProgress
from lakelog.table.tail.tail import Tail
from lakelog.table.write.pipe import Function


@click.command()
@table_argument
@click.option(
    "--start",
    type=click.Choice(["latest", "earliest", "latest-full"]),
    default="latest",
    show_default=True,
    help="Start position; latest-full prints the newest snapshot first.",
)
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@click.option(
    "--position-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Resume from the position in this file, and save the new position there.",
)
@limit_option
@warehouse_option
@format_option
def tail(
    table: str,
    start: str,
    stop: str | None,
    position_file: Path | None,
    limit: int | None,
    warehouse: str,
    format_name: str,
) -> None:
    """Print the changes of TABLE (db.table) as its log receives them, with their row kind, until Ctrl-C.

    With --position-file a partly printed batch is printed again on the next run.
    """
    # Ctrl-C is the usual end of a tail, not a failure
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt):
        begin = start if position_file is None else _kept(position_file) or start
        batches = lake.table(table).tail(start=begin, stop=stop)
        shown = batches if position_file is None else _keeping(batches, position_file)
        PRINTERS[format_name]().print_result((pa.Table.from_batches([batch]) for batch in shown), limit)


def _kept(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise InvalidRequest(f"cannot read the position in '{file}': {failed.strerror}") from failed


def _keeping(batches: Tail, file: Path) -> Iterator[pa.RecordBatch]:
    """The batches; the request for the next one stores the position after the last one."""
    for batch in batches:
        yield batch
        new = file.with_name(f"{file.name}.new")
        try:
            new.write_text(f"{batches.position}\n", encoding="utf-8")
            os.replace(new, file)
        except OSError as failed:
            raise InvalidRequest(f"cannot write the position to '{file}': {failed.strerror}") from failed


@click.command()
@table_argument
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@click.option("--skip-missing", is_flag=True, help="Continue if the log has lost records that are not in files.")
@warehouse_option
@format_option
def follow(table: str, stop: str | None, skip_missing: bool, warehouse: str, format_name: str) -> None:
    """Materialize log-first rows of TABLE (db.table) into data files, until Ctrl-C."""
    printer = FactPrinter(format_name)
    # Ctrl-C is the usual end; the next follower goes on where this one was
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt):
        for snapshot in lake.table(table).follow(stop, skip_missing):
            count = snapshot.delta_record_count or 0
            facts = {"table": table, "snapshot": snapshot.id, "rows": count, "time_ms": snapshot.time_millis}
            printer.print(f"snapshot {snapshot.id}: {count:,} {'row' if count == 1 else 'rows'}", facts)


@click.command()
@table_argument
@click.option("--to", required=True, metavar="ADDRESS", help="Topic, such as kafka://host:9092/topic.")
@click.option(
    "--start",
    type=click.Choice(STARTS),
    default=STARTS[0],
    show_default=True,
    help="Start of a new mirror; latest-full copies the newest snapshot first. Later runs resume.",
)
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@warehouse_option
@format_option
def mirror(table: str, to: str, start: str, stop: str | None, warehouse: str, format_name: str) -> None:
    """Copy the committed changes of TABLE (db.table) to a Kafka topic as debezium-json, exactly once, until Ctrl-C.

    The next run continues where this one has stopped. Client properties, such as credentials, are in the part
    [properties] of the file of --config.
    """
    properties, printer = warehouse_config(warehouse).properties, FactPrinter(format_name)
    # Ctrl-C is the usual end; the next run resumes from the committed position
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt), ended_by_signals():
        _print_copy(lake.table(table).mirror(to, start, stop, properties), printer, {"table": table, "to": to})


@click.command()
@table_argument
@click.argument("target")
@click.option("--function", "place", required=True, metavar="MODULE:NAME", help="Python function of an Arrow batch.")
@click.option("--name", default="", help="Distinguishes pipes between the same tables.")
@click.option("--start", type=click.Choice(STARTS), default=STARTS[0], show_default=True, help="Start of a new pipe.")
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@warehouse_option
@format_option
def pipe(
    table: str, target: str, place: str, name: str, start: str, stop: str | None, warehouse: str, format_name: str
) -> None:
    """Run a Python function over the changes of TABLE, and write its rows to TARGET exactly once, until Ctrl-C.

    The module may be in the current directory. The next run continues where this one has stopped.
    """
    function, printer = _function(place), FactPrinter(format_name)
    # Ctrl-C is the usual end; the next run resumes from the committed position
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt), ended_by_signals():
        progress = lake.table(table).pipe(function, lake.table(target), name, start, stop)
        _print_copy(progress, printer, {"table": table, "target": target})


def _print_copy(progress: Iterator[CopyProgress], printer: FactPrinter, names: dict[str, str]) -> None:
    for done in progress:
        facts = {**names, "rows": done.rows, "lag": done.lag}
        printer.print(f"{done.rows:,} {'row' if done.rows == 1 else 'rows'}, lag {done.lag:,}", facts)


def _function(place: str) -> Function:
    module, _, name = place.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        function: Function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as why:
        raise InvalidRequest(f"--function {place} is not there: {why}. Write it as module:function") from why
    return function
