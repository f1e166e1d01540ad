"""What an aggregation cannot fold is refused at the write; what it accepts, each read and compaction can fold."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, InvalidSchema
from lakelog.lake.table import Table
from lakelog.merge.aggregates import AGGREGATES, make_aggregate
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import parse_type

NESTED = {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT"}]}}
TYPES = (
    ("INT", 1),
    ("BOOLEAN", True),
    ("STRING", "a"),
    ({"type": "ARRAY", "element": "INT"}, [1]),
    ({"type": "MAP", "key": "INT", "value": "INT"}, [(1, 1)]),
    (NESTED, [{"x": 1}]),
)
"""Types of columns, and a value of each."""
LIMITS = {
    "tinyint": (pa.int8(), 127),
    "smallint": (pa.int16(), 32767),
    "int": (pa.int32(), 2**31 - 1),
    "bigint": (pa.int64(), 2**63 - 1),
    "decimal(5,2)": (pa.decimal128(5, 2), Decimal("999.99")),
    "decimal(9,2)": (pa.decimal128(9, 2), Decimal("9999999.99")),
    "decimal(18,0)": (pa.decimal128(18, 0), Decimal(10**18 - 1)),
    "decimal(38,0)": (pa.decimal128(38, 0), Decimal("9" * 38)),
}


def make(tmp_path, function: str, kind: str, **more: str) -> Table:
    lake = connect(warehouse=str(tmp_path))
    given = {"merge-engine": "aggregation", "bucket": "1", "fields.v.aggregate-function": function, **more}
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    lake.sql(f"create table db.t (id int, v {kind}, primary key (id)) using lakelog tblproperties ({options})")
    return lake.table("db.t")


def write(table: Table, values: pa.Array, kind: str = "+I") -> None:
    with table.writer() as writer:
        ids = pa.array([1] * len(values), pa.int32())
        writer.write(pa.table({"id": ids, "v": values, "_row_kind": [kind] * len(values)}))


@pytest.mark.parametrize("is_needed", [False, True], ids=["nullable", "not null"])
@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize("function", sorted({*AGGREGATES}))
def test_a_retraction_is_refused_by_the_writer_or_folded(tmp_path, function: str, kind: str, is_needed: bool) -> None:
    for logical, own in TYPES:
        try:
            fields = new_schema([("v", parse_type(logical).with_nullable(not is_needed), None)], []).fields
            made, value = make_aggregate(function, fields[0], {}), own
            break
        except InvalidOption:
            continue
    text = {"INT": "int", "BOOLEAN": "boolean", "STRING": "string"}.get(str(logical)) or (
        "array<struct<x: int>>"
        if logical is NESTED
        else {"ARRAY": "array<int>", "MAP": "map<int, int>"}[logical["type"]]
    )
    values = pa.array([value if is_needed else None], arrow_schema(fields).field(0).type)
    table = make(tmp_path, function, f"{text} not null" if is_needed else text)
    write(table, values)
    if made.retraction_fault is not None:
        with pytest.raises(
            InvalidSchema, match=rf"'{kind}' for table db.t.*column 'v'.*'fields.v.ignore-retract' = 'true'"
        ):
            write(table, values, kind)
    else:
        write(table, values, kind)
    write(table, values)
    table.compact(full=True)
    assert table.scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("null", ["", " not null"])
@pytest.mark.parametrize("compacts", [False, True])
def test_a_sum_that_does_not_fit_is_null_until_it_fits_again(tmp_path, kind: str, compacts: bool, null: str) -> None:
    table, (arrow, largest) = make(tmp_path, "sum", kind + null), LIMITS[kind]
    least = largest.copy_negate() if isinstance(largest, Decimal) else -largest

    def add(value: object) -> object:
        write(table, pa.array([value], arrow))
        if compacts:
            table.compact(full=True)
        return table.scan().to_arrow()["v"][0].as_py()

    assert [add(value) for value in (largest, largest, largest, least, least)] == [
        largest, None, None, None, largest
    ]  # fmt: skip
    with pytest.raises(InvalidSchema, match="column 'v' of key .* have a sum that does not fit"):
        write(table, pa.array([largest, largest], arrow))
    assert add(least) == 0


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize("more", [{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}])
def test_a_row_that_is_older_than_a_delete_stays_deleted(tmp_path, engine: str, more: dict[str, str]) -> None:
    removes = {f"{engine}.remove-record-on-delete": "true"} if engine != "deduplicate" else {}
    table = make(
        tmp_path, "last_non_null_value", "int", **{"merge-engine": engine, "sequence.field": "v", **removes, **more}
    )
    for value, kind in ((1, "+I"), (5, "-D")):
        write(table, pa.array([value], pa.int32()), kind)
        table.compact(full=True)
    assert table.compact(full=True).snapshot is None, "what a compaction keeps needs no other one"
    write(table, pa.array([3], pa.int32()))
    table.compact(full=True)
    assert table.scan().to_arrow().num_rows == 0
    write(table, pa.array([6], pa.int32()))
    assert table.scan().to_arrow()["v"].to_pylist() == [6]


@pytest.mark.parametrize("rows", [[(1, 3, "+I"), (2, 3, "-U")], [(1, 7, "+I"), (2, 3, "-U")], [(2, 3, "-U")] * 2])
@pytest.mark.parametrize("function", ["last_value", "last_non_null_value"])
def test_a_compaction_does_not_add_a_value_that_was_taken_back(
    tmp_path, function: str, rows: list[tuple[int, int, str]]
) -> None:
    lake = connect(warehouse=str(tmp_path))
    lake.sql(
        "create table db.t (id int, q int, v int, primary key (id)) using lakelog tblproperties ('bucket' = '1', "
        f"'merge-engine' = 'aggregation', 'sequence.field' = 'q', 'fields.v.aggregate-function' = '{function}')"
    )
    table = lake.table("db.t")
    for q, v, kind in rows:
        row = {"id": pa.array([1], pa.int32()), "q": pa.array([q], pa.int32()), "v": pa.array([v], pa.int32())}
        table.write(pa.table({**row, "_row_kind": [kind]}))
    assert table.scan().to_arrow()["v"].to_pylist() == [None]
    table.compact(full=True)
    assert table.scan().to_arrow()["v"].to_pylist() == [None]


@pytest.mark.parametrize("null", ["", " not null"])
def test_the_log_has_a_sum_that_does_not_fit(tmp_path, null: str) -> None:
    table = make(tmp_path, "sum", f"tinyint{null}", **{"log-store.enabled": "true"})
    for value in (100, 100, -90):
        write(table, pa.array([value], pa.int8()))
    changes = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert [row["v"] for row in changes if row["_row_kind"] in ("+I", "+U")] == [100, None, 110]
