"""``lakelog replicate`` and ``lakelog promote``: a table in two warehouses."""

from __future__ import annotations

from contextlib import suppress

import click

from lakelog.cli.console.connection import connect, target_options
from lakelog.cli.console.names import option_pairs, table_argument
from lakelog.cli.console.output import FactPrinter, format_option, warehouse_option
from lakelog.cli.console.process import ended_by_signals


@click.command()
@table_argument
@click.option("--to", required=True, metavar="WAREHOUSE", help="Warehouse of the replica: a path or a URI.")
@click.option("--as", "replica", metavar="TABLE", help="Name of the replica; default: that of TABLE.")
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current state of TABLE.")
@warehouse_option
@format_option
def replicate(table: str, to: str, replica: str | None, stop: str | None, warehouse: str, format_name: str) -> None:
    """Keep a replica of TABLE (db.table) in another warehouse close to it, until Ctrl-C.

    The replica can be read; other writers are refused until lakelog promote. While a storage does not answer, the
    command tries again. Options of the storage of the replica, if it is not that of the warehouse, are in the part
    [target] of the file of --config.
    """
    printer = FactPrinter(format_name)
    storage = target_options(warehouse)
    # Ctrl-C is the usual end; the next run continues with the next snapshot
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt), ended_by_signals():
        for step in lake.replicate(table, to, replica=replica, stop=stop, storage_options=storage):
            why = f": {step.error}" if step.error else ""
            facts = {"table": table, "snapshot": step.snapshot, "lag_s": round(step.lag_s, 3), "error": step.error}
            printer.print(f"snapshot {step.snapshot}, lag {step.lag_s:.1f} s{why}", facts)


@click.command()
@table_argument
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE",
              help="Table option to set, such as the address of the log; repeatable.")  # fmt: skip
@warehouse_option
@format_option
def promote(table: str, options: tuple[str, ...], warehouse: str, format_name: str) -> None:
    """Make the replica TABLE (db.table) a table of its own, with a new log if its source had one.

    The process that replicates is fenced. Writers and checkpoints of the source are refused here. Stop the writers of
    the source first if they still run: the replica lacks what they commit afterwards.
    """
    with connect(warehouse=warehouse) as lake:
        lake.promote(table, option_pairs(options))
        newest = lake.table(table).latest_snapshot()
    number = 0 if newest is None else newest.id
    FactPrinter(format_name).print(
        f"{table} can be written, from snapshot {number} on", {"table": table, "snapshot": number}
    )
