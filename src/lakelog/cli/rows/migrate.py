"""``lakelog migrate``: copies a table of another system into lakelog."""

from __future__ import annotations

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables, option_pairs
from lakelog.cli.console.output import PRINTERS, FactPrinter, format_option, warehouse_option
from lakelog.cli.console.process import Process, remark
from lakelog.paimon.types.types import type_text
from lakelog.service.migration import SOURCES
from lakelog.service.migration.migration import Migration, plan_migration, run_migration


def _names(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


@click.command()
@click.argument("source")
@click.argument("table", shell_complete=complete_tables)
@click.option("--from", "kind", type=click.Choice(list(SOURCES)), default="parquet", show_default=True,
              help="System of SOURCE.")  # fmt: skip
@click.option("--primary-key", metavar="COLUMN[,COLUMN]…", callback=_names, help="Primary key of the new table.")
@click.option("--partition-by", metavar="COLUMN[,COLUMN]…", callback=_names,
              help="Partition columns of the new table; '' for none. Default: those of SOURCE.")  # fmt: skip
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the new table; repeatable.")
@click.option("--dry-run", is_flag=True, help="Check SOURCE and print the columns of the new table only.")
@warehouse_option
@format_option
@click.pass_obj
def migrate(
    process: Process | None,
    source: str,
    table: str,
    kind: str,
    primary_key: tuple[str, ...] | None,
    partition_by: tuple[str, ...] | None,
    options: tuple[str, ...],
    dry_run: bool,
    warehouse: str,
    format_name: str,
) -> None:
    """Copy SOURCE into the new TABLE (db.table) as one commit. SOURCE does not change.

    SOURCE is a directory of Parquet files, the path of a Delta table, a table of pyiceberg's catalogs, or what follows
    FROM in Spark's SQL. Keys with several rows are reported before anything is written. After a failure TABLE does not
    exist, or is empty: repeat the command. Only if SOURCE has changed while Spark copied it, the error asks you to drop
    TABLE first. A log of TABLE gets no row.
    """
    if kind == "spark":
        (process or Process()).silence_children()
    with connect(warehouse=warehouse) as lake:
        opened = SOURCES.create(kind, lake, source)
        plan = plan_migration(lake, opened, table, primary_key or (), partition_by, option_pairs(options))
        remark(f"{source}: {plan.rows:,} rows, to be copied into {'the new' if plan.is_new else 'the empty'} {table}")
        if dry_run:
            PRINTERS[format_name]().print_result([_columns(plan)])
            return
        copied = run_migration(lake, opened, plan)
        newest = copied.latest_snapshot()
    facts = {"table": table, "rows": plan.rows, "snapshot": None if newest is None else newest.id}
    FactPrinter(format_name).print(f"{plan.rows:,} rows copied to {table}; both tables have the same count", facts)


def _columns(plan: Migration) -> pa.Table:
    """A row per column of the new table: name, SQL type, and its part in keys and partitions."""
    definition = plan.definition
    parts = [
        ", ".join(
            part
            for part, names in (("primary key", definition.primary_keys), ("partition", definition.partition_keys))
            if field.name in names
        )
        for field in definition.fields
    ]
    return pa.table(
        {
            "column": [field.name for field in definition.fields],
            "type": [type_text(field.type) for field in definition.fields],
            "part": parts,
        }
    )
