"""Tables with a past that lakelog made: changed schemas, overwrites, rescaled buckets, tags, branches, expiry."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakelog import Lake
from lakelog.lake.table import Table
from lakelog.paimon.schema.changes import (
    FIRST,
    AddColumn,
    ChangeComment,
    ChangePosition,
    ChangeType,
    DropColumn,
    RenameColumn,
    SetOption,
    after,
)
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.create import create_table
from lakelog.table.open import identifier_of, open_catalog

Make = Callable[[Lake, str], None]
HISTORIES: dict[str, Make] = {}
"""Name of a history → what makes a table ``g.<name>`` that has it."""

COLUMNS = {"p": "STRING", "id": "INT", "v": "STRING", "n": "BIGINT"}


def history(name: str) -> Callable[[Make], Make]:
    """Registers a history."""

    def register(make: Make) -> Make:
        HISTORIES[name] = make
        return make

    return register


def created(
    lake: Lake,
    name: str,
    columns: Mapping[str, Any] = COLUMNS,
    keys: Sequence[str] = ("p", "id"),
    partitions: Sequence[str] = ("p",),
    **options: str,
) -> Table:
    """A new table; options have `__` for a dot and `_` for a dash."""
    fields = [(column, parse_type(kind), None) for column, kind in columns.items()]
    given = {"bucket": "2"} | {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    create_table(open_catalog(lake.warehouse), identifier_of(f"g.{name}"), new_schema(fields, keys, partitions, given))
    return lake.table(f"g.{name}")


def write(table: Table, rows: Sequence[Mapping[str, Any]], kinds: Sequence[str] = (), **how: Any) -> None:
    """Writes rows, given as column → value, as one commit."""
    batch = pa.Table.from_pylist([dict(row) for row in rows], table.schema)
    if kinds:
        batch = batch.append_column("_row_kind", pa.array(kinds))
    table.write(batch, **how, missing="null")


def rows(first: int, count: int, word: str, partitions: Sequence[str | None] = ("a", "b")) -> list[dict[str, Any]]:
    """Rows of the usual columns."""
    return [
        {"p": partitions[i % len(partitions)], "id": i, "v": None if i % 4 == 0 else f"{word}{i}", "n": i << 33}
        for i in range(first, first + count)
    ]


def _filled(lake: Lake, name: str, **options: Any) -> Table:
    table = created(lake, name, **options)
    write(table, rows(0, 10, "first"))
    write(table, rows(5, 8, "second"))
    return table


def _altered(format_: str, keys: Sequence[str]) -> Make:
    def make(lake: Lake, name: str) -> None:
        columns = {
            "id": "INT", "i": "INT", "s": "STRING", "f": "FLOAT", "dec": "DECIMAL(9, 2)", "ts": "TIMESTAMP(3)",
            "r": {"type": "ROW", "fields": [
                {"id": 0, "name": "x", "type": "INT"}, {"id": 0, "name": "y", "type": "STRING"}]},
            "ar": {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 0, "name": "e", "type": "INT"}]}},
        }  # fmt: skip
        bucket = "1" if keys else "-1"
        table = created(lake, name, columns, keys, (), bucket=bucket, file__format=format_)
        at = dt.datetime(2024, 2, 29, 12, 30, 1, 5000)
        write(table, [
            {"id": i, "i": i - 3, "s": f"s{i}", "f": i / 4, "dec": Decimal(f"{i}.55"), "ts": at,
             "r": {"x": i, "y": "y"}, "ar": [{"e": i}, None]} for i in range(6)
        ])  # fmt: skip
        table.alter(
            AddColumn(("new",), parse_type("DATE"), "a new column", after("id")),
            ChangeType(("i",), parse_type("BIGINT")), ChangeType(("f",), parse_type("DOUBLE")),
            ChangeType(("dec",), parse_type("DECIMAL(20, 2)")), ChangeType(("ts",), parse_type("TIMESTAMP(6)")),
            RenameColumn(("s",), "renamed"), AddColumn(("r", "z"), parse_type("DOUBLE")), DropColumn(("r", "y")),
            ChangeType(("r", "x"), parse_type("BIGINT")), ChangeComment(("i",), "wider"),
        )  # fmt: skip
        write(table, [
            {"id": i, "new": dt.date(1969, 12, 31), "i": 1 << 40, "renamed": "r", "f": 1.1, "dec": Decimal("9.25"),
             "ts": at, "r": {"x": 1 << 40, "z": 0.5}, "ar": []} for i in range(4, 8)
        ])  # fmt: skip
        table.alter(DropColumn(("renamed",)), ChangePosition(("ar",), FIRST), ChangeType(("i",), parse_type("STRING")))
        table.alter(AddColumn(("renamed",), parse_type("INT")), SetOption("target-file-size", "64 mb"))
        write(table, [{"id": 9, "renamed": 5, "i": "text", "ar": [{"e": None}]}])

    return make


HISTORIES |= {f"altered_{f}": _altered(f, ("id",)) for f in ("parquet", "orc", "avro")}
HISTORIES |= {f"altered_append_{f}": _altered(f, ()) for f in ("parquet", "orc", "avro")}


@history("overwritten")
def _overwritten(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    write(table, rows(0, 3, "static", ("a",)), overwrite={"p": "a"})
    write(table, rows(20, 4, "dynamic", ("b", "c/=ä")), overwrite=True)
    write(table, rows(20, 2, "after", ("c/=ä",)), ("-D", "+U"))


@history("overwritten_whole")
def _overwritten_whole(lake: Lake, name: str) -> None:
    table = _filled(lake, name, keys=("id",), partitions=())
    write(table, rows(3, 3, "whole"), overwrite=True)
    write(table, rows(5, 3, "after"))


@history("overwritten_append")
def _overwritten_append(lake: Lake, name: str) -> None:
    table = _filled(lake, name, keys=(), bucket="-1")
    write(table, rows(0, 4, "null", (None, "")))
    write(table, rows(0, 3, "dynamic", ("a",)), overwrite=True)


@history("overwritten_dynamic_buckets")
def _overwritten_dynamic(lake: Lake, name: str) -> None:
    table = _filled(lake, name, bucket="-1", dynamic_bucket__target_row_num="3")
    write(table, rows(0, 5, "again", ("a",)), overwrite=True)
    write(table, rows(3, 6, "after", ("a",)))


@history("truncated")
def _truncated(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.truncate({"p": "a"})
    write(table, rows(40, 2, "between"))
    table.truncate()
    write(table, rows(50, 2, "after"))


@history("dropped_partitions")
def _dropped(lake: Lake, name: str) -> None:
    table = created(lake, name, keys=(), bucket="-1")
    write(table, rows(0, 12, "x", ("a", "b", "c", None)))
    table.drop_partitions([{"p": "a"}, {"p": None}])
    write(table, rows(50, 3, "after"))


@history("rescaled")
def _rescaled(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.alter(SetOption("bucket", "3"))
    table.rescale({"p": "a"})
    table.rescale()
    write(table, rows(8, 6, "after"))


@history("rescaled_append")
def _rescaled_append(lake: Lake, name: str) -> None:
    table = _filled(lake, name, keys=(), bucket_key="id")
    table.alter(SetOption("bucket", "1"))
    table.rescale()
    write(table, rows(8, 6, "after"))


@history("expired")
def _expired(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.compact()
    table.create_tag("kept", 2)
    write(table, rows(9, 6, "third"))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.remove_orphan_files(older_than="0 s")
    write(table, rows(14, 3, "fourth"))


@history("expired_partitions")
def _expired_partitions(lake: Lake, name: str) -> None:
    table = created(
        lake, name, partition__timestamp_formatter="yyyy-MM-dd", partition__expiration_time="30 d",
        partition__expiration_check_interval="0 s",
    )  # fmt: skip
    write(table, rows(0, 8, "x", ("2020-01-01", "2999-01-01")))
    table.expire_partitions()


@history("tagged")
def _tagged(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.create_tag("one", 1)
    table.create_tag("two", retained="36 h")
    table.create_tag("short", 2, "90 s")
    write(table, rows(2, 3, "third"))
    table.delete_tag("short")


@history("branched")
def _branched(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.create_tag("base", 1)
    table.create_branch("dev", "base")
    table.create_branch("old", snapshot_id=2)
    table.create_branch("empty")
    write(table, rows(60, 3, "main"))


@history("fast_forward")
def _fast_forward(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.create_tag("base")
    table.create_branch("dev", "base")
    write(table, rows(60, 3, "gone"))
    table.fast_forward("dev")
    write(lake.table(f"g.{name}"), rows(31, 3, "after"))


@history("rolled_back")
def _rolled_back(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    write(table, rows(60, 3, "gone"))
    table.rollback_to(2)
    write(table, rows(9, 3, "after"))


@history("consumed")
def _consumed(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    for plan in table.stream_plan(from_snapshot=1):
        table.logical.store.consumers.record("me", plan.next)


@history("analyzed")
def _analyzed(lake: Lake, name: str) -> None:
    table = _filled(lake, name)
    table.analyze()
    write(table, rows(9, 3, "after"))


@history("compacted")
def _compacted(lake: Lake, name: str) -> None:
    table = _filled(lake, name, file__format__per__level="0:avro,5:orc", manifest__merge_min_count="2")
    table.compact()
    write(table, rows(9, 3, "after"), ("-D", "+I", "+U"))
    table.compact(full=False)
    write(table, rows(7, 3, "last"))


@history("joined_append")
def _joined(lake: Lake, name: str) -> None:
    table = _filled(lake, name, keys=(), partitions=(), bucket="-1", compaction__min__file_num="2")
    table.compact()
    write(table, rows(9, 3, "after"))
