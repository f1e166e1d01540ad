"""``lakelog view``: lists, refreshes and explains materialized views, and keeps them fresh."""

from __future__ import annotations

import threading
from contextlib import suppress

import click

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables
from lakelog.cli.console.output import PRINTERS, FactPrinter, format_option, warehouse_option
from lakelog.cli.console.process import ended_by_signals, remark
from lakelog.errors import LakelogError
from lakelog.sql.views.refresh import Refresh


@click.group()
def view() -> None:
    """Refresh materialized views, and keep them fresh. SQL creates, alters and drops them (lakelog sql)."""


@view.command(name="list")
@click.argument("database", required=False)
@warehouse_option
@format_option
def list_views(database: str | None, warehouse: str, format_name: str) -> None:
    """List the views of DATABASE, or of all databases."""
    with connect(warehouse=warehouse) as lake:
        names = [database] if database else lake.list_databases()
        shown = [lake.run(f"SHOW MATERIALIZED VIEWS IN `{name.replace('`', '``')}`")[0] for name in names]
        PRINTERS[format_name]().print_result(shown)


@view.command()
@click.argument("name", shell_complete=complete_tables)
@warehouse_option
def explain(name: str, warehouse: str) -> None:
    """Show which engine computes view NAME, and what it computes after a change of a source."""
    with connect(warehouse=warehouse) as lake:
        click.echo(lake.views.explain(name))


@view.command()
@click.argument("names", nargs=-1, metavar="[VIEW]…", shell_complete=complete_tables)
@click.option("--rebuild", is_flag=True, help="Compute all rows, also if a source was dropped and created again.")
@warehouse_option
@format_option
def refresh(names: tuple[str, ...], rebuild: bool, warehouse: str, format_name: str) -> int:
    """Refresh VIEW, or all views, once; each after the views that it reads. 1 if one fails."""
    printer, failures = FactPrinter(format_name), 0
    with connect(warehouse=warehouse) as lake:
        for name in lake.views.ordered(names or None):
            try:
                _print(printer, lake.views.rebuild(name) if rebuild else lake.views.refresh(name))
            except LakelogError as why:
                failures += 1
                click.echo(f"{name}: {why}", err=True)
    return 1 if failures else 0


@view.command()
@click.argument("names", nargs=-1, metavar="[VIEW]…", shell_complete=complete_tables)
@warehouse_option
@format_option
def run(names: tuple[str, ...], warehouse: str, format_name: str) -> None:
    """Keep VIEW, or all views, fresh until Ctrl-C or SIGTERM.

    Each refresh prints one line, or one JSON object with --format jsonl. A view that fails is tried again after a
    pause. Several processes may run the same views.
    """
    printer = FactPrinter(format_name)
    # Ctrl-C is the usual end of a service
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt), ended_by_signals():
        remark(f"keeping {', '.join(lake.views.ordered(names or None)) or 'no view'} fresh; Ctrl-C stops")
        for done in lake.views.run(names or None, threading.Event(), _show_failure):
            _print(printer, done)


def _print(printer: FactPrinter, done: Refresh) -> None:
    how = "is current" if done.is_current else "computed again" if done.is_whole else "refreshed"
    facts = {"view": done.view, "rows": done.rows, "whole": done.is_whole}
    printer.print(f"{done.view} {how}, {done.rows} rows changed", facts)


def _show_failure(name: str, why: LakelogError) -> None:
    click.echo(f"{name}: {why}", err=True)
