"""``lakelog backup`` and ``lakelog restore``: copies of a table in another place."""

from __future__ import annotations

import click
import pyarrow as pa
from rich.filesize import decimal

from lakelog.cli.console.connection import connect, target_options
from lakelog.cli.console.names import complete_tables, option_pairs, table_argument
from lakelog.cli.console.output import PRINTERS, FactPrinter, format_option, warehouse_option
from lakelog.options.notebook import time_text
from lakelog.table.copies.backup_store import BackupPoint


@click.command()
@table_argument
@click.option("--to", required=True, metavar="DIRECTORY", help="Directory of the backup: a path or a URI.")
@click.option("--keep", type=click.IntRange(min=1), help="Number of newest points to keep.")
@click.option("--tag", help="Copy the state of this tag instead of the newest one.")
@click.option("--files-only", is_flag=True, help="Leave out rows that are in the log alone.")
@warehouse_option
@format_option
def backup(
    table: str, to: str, keep: int | None, tag: str | None, files_only: bool, warehouse: str, format_name: str
) -> None:
    """Copy the committed rows of TABLE (db.table) into a backup. Writers continue meanwhile.

    Only files that the backup lacks are copied. A backup that is killed leaves the earlier points whole. Options of the
    storage of the backup, if it is not that of the warehouse, are in the part [target] of the file of --config.
    """
    with connect(warehouse=warehouse) as lake:
        point = lake.backup(
            table, to, keep=keep, tag=tag, files_only=files_only, storage_options=target_options(warehouse)
        )
    text = f"point {point.number}: snapshot {point.snapshot}, {_copied(point)}"
    FactPrinter(format_name).print(text, {"table": table, "to": to, **_facts(point)})


@click.command()
@click.argument("directory")
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option("--snapshot", type=int, help="Restore the point of this snapshot.")
@click.option("--tag", help="Restore the point that had this tag.")
@click.option("--timestamp", help="Restore the newest point at this time, such as '2026-11-28 12:00:00'.")
@click.option("--in-place", is_flag=True, help="Make the point the newest state of the table that was backed up.")
@click.option("--files-only", is_flag=True, help="With --in-place: leave the log as it is, ahead of the files.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the new table; repeatable.")
@click.option("--check", is_flag=True, help="Read all files of the backup and compare their checksums first.")
@warehouse_option
@format_option
def restore(
    directory: str,
    table: str | None,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    in_place: bool,
    files_only: bool,
    options: tuple[str, ...],
    check: bool,
    warehouse: str,
    format_name: str,
) -> None:
    """Restore a point of the backup in DIRECTORY as the new TABLE (db.table). Without TABLE, list the points.

    The new table has an identity and an empty log of its own, so writers and checkpoints of the old table are refused.
    With --in-place the table itself gets the rows of the point, as a rollback does, and its writers continue.
    """
    storage = target_options(warehouse)
    with connect(warehouse=warehouse) as lake:
        if table is None or check:
            points = lake.backup_points(directory, check=check, storage_options=storage)
        if table is None:
            PRINTERS[format_name]().print_result([pa.Table.from_pylist([_facts(point) for point in points])])
            return
        point = lake.restore(
            directory,
            table,
            snapshot_id=snapshot,
            tag=tag,
            timestamp=timestamp,
            in_place=in_place,
            files_only=files_only,
            options=option_pairs(options),
            storage_options=storage,
        )
    text = f"{table} has the rows of snapshot {point.snapshot}, committed {time_text(point.time_ms)}"
    FactPrinter(format_name).print(text, {"table": table, **_facts(point)})


def _copied(point: BackupPoint) -> str:
    files = "1 file" if point.new_files == 1 else f"{point.new_files:,} files"
    return f"{files} copied ({decimal(point.new_bytes)}) of {len(point.files):,}"


def _facts(point: BackupPoint) -> dict[str, object]:
    return {
        "point": point.number,
        "snapshot": point.snapshot,
        "committed": time_text(point.time_ms),
        "tags": ", ".join(point.tags),
        "files": len(point.files),
        "new_files": point.new_files,
        "new_bytes": point.new_bytes,
    }
