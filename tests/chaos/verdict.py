"""The count at the end: what was sent, what the log holds of it, and whether everybody reads the same table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import polars as pl

import debezium_consumer
from chaos.net import Net, counted, difference
from chaos.rows import SCHEMA, Input
from lakelog import Lake
from lakelog.lake.table import Table

_FIELDS = ["version", "kind", "writer", "epoch", "attempt", "ref", "sign", "extra"]
_IMAGES = ("before", "after")
KINDS = {"id": "bigint", "v": "bigint", "name": "string", "at": "timestamp_ltz"}


def census(table: Table, rows: Input, total: int) -> dict[str, int]:
    """Rows (images of changes) by what became of them, from the headers of the log.

    ``redundant`` rows count for nothing in the end: they are sent again after a failure. Where the log has
    before-images, each is taken back by a correction (``compensated``) and ``net`` is what was sent. Where it has none,
    corrections only put the last state of a key right.
    """
    data = compensated = restored = asserted = 0
    for records in table.log_records():
        frame: Any = pl.from_arrow(records.select(["value", "header"]))
        header = pl.col("header").cast(pl.String).str.split_exact("|", 7).struct.rename_fields(_FIELDS)
        text = pl.col("value").cast(pl.String)
        images = sum(pl.lit(1) - text.str.contains(f'"{image}":null', literal=True).cast(pl.Int64) for image in _IMAGES)
        parts = frame.filter(pl.col("value").is_not_null()).select(header.alias("h"), images.alias("images"))
        by_kind = parts.unnest("h").group_by("kind", "sign").agg(pl.col("images").sum())
        for kind, sign, count in by_kind.iter_rows():
            data += count if kind == "d" else 0
            compensated += count if (kind, sign) == ("x", "-1") else 0
            restored += count if (kind, sign) == ("x", "1") else 0
            asserted += count if (kind, sign) == ("x", "0") else 0
    sent = rows.row_count(total)
    balanced = rows.kind != "upserts"
    return {
        "changes": total,
        "sent": sent,
        "log": data,
        "redundant": data - sent,
        "compensated": compensated - restored,
        "assertions": asserted,
        "net": data - compensated + restored if balanced else sent,
    }


def readings(
    lake: Lake, rows: Input, values: Iterator[bytes | None], tailed: pl.DataFrame, is_copied: bool = True
) -> dict[str, pl.DataFrame]:
    """The table as each reader has it, counted."""
    table = lake.table("db.t")
    again, committed = Net(rows.kind), Net(rows.kind)
    for net, options in ((again, {}), (committed, {"log.consistency": "transactional"})):
        for batch in table.tail("earliest", stop="latest", options=options):
            net.add(batch)
    found = {
        "batch read": counted(table.scan().to_arrow()),
        "log, by lakelog": again.table(),
        "log, committed rows": committed.table(),
        "log, by a plain consumer": plain(rows, values),
        "tail that lived through it": tailed,
    }
    if is_copied:
        copied: Any = pl.from_arrow(lake.table("db.copy").scan().to_arrow())
        found["copy by a stream"] = copied.select(tailed.columns) if rows.kind == "append" else counted(copied)
    return found


def plain(rows: Input, values: Iterator[bytes | None]) -> pl.DataFrame:
    """What a debezium-json consumer that is not lakelog's makes of the log, counted."""
    if rows.kind == "append":
        found = [(json.loads(row), count) for row, count in debezium_consumer.added_up(values).items()]
    else:
        found = [(row, 1) for row in debezium_consumer.folded(values, ["id"]).values()]
    typed = [debezium_consumer.typed(row, KINDS) for row, _ in found]
    frame: Any = pl.from_arrow(SCHEMA.empty_table())
    if typed:
        frame = pl.from_dicts(typed, schema={"id": pl.Int64, "v": pl.Int64, "name": pl.String, "at": datetime})
        frame = frame.cast(dict(zip(SCHEMA.names, pl.from_arrow(SCHEMA.empty_table()).dtypes, strict=True)))
    return frame.with_columns(pl.Series("n", [count for _, count in found], pl.Int64))  # type: ignore[no-any-return]


def judge(wanted: pl.DataFrame, found: dict[str, pl.DataFrame]) -> dict[str, dict[str, int]]:
    """How many rows each reader has, lacks, and has too much."""
    out = {}
    for name, frame in found.items():
        lost, extra = difference(wanted, frame)
        out[name] = {"rows": int(frame.get_column("n").sum()), "lost": lost, "extra": extra}
    return out
