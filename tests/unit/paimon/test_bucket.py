from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.paimon.rows.binary_row import encode_row
from lakelog.paimon.rows.bucket import bucket_of_rows, python_values, row_hashes
from lakelog.paimon.rows.murmur import murmur_one
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.types import BIGINT, INT, STRING, DataType, parse_type

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
BUCKETED = ["append_bucketed", "pk_dedup", "pk_dedup_compacted", "pk_partitioned", "manifest_merge"]


@pytest.mark.parametrize("name", BUCKETED)
def test_every_row_of_paimon_lies_in_the_bucket_that_its_hash_says(name: str) -> None:
    root = GOLDEN / name / "g.db" / name
    schema = TableSchema.from_json((root / "schema" / "schema-0").read_bytes())
    rows = 0
    for path in root.rglob("data-*.parquet"):
        table = pq.ParquetFile(path).read()
        wanted = int(re.findall(r"bucket-(\d+)", str(path))[0])
        assert bucket_of_rows(table, schema).tolist() == [wanted] * table.num_rows
        rows += table.num_rows
    assert rows > 0


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("INT", 1, 1465514398),
        ("INT", -7, 1485184587),
        ("BIGINT", 1000003, 2037835784),
        ("STRING", "a", 943281246),
        ("STRING", "longer-than-7-bytes", 530361313),
        ("STRING", "é日", 1980782342),
        ("INT", None, -1748325344),
        ("DECIMAL(30, 5)", Decimal("-10000000000000.00700"), 1316710686),
        ("BOOLEAN", True, 1465514398),
        ("DOUBLE", 1.5, 1860889473),
    ],
)
def test_the_hash_of_a_value_is_that_of_paimon(kind: str, value: Any, expected: int) -> None:
    column = pa.array([value], arrow_type(parse_type(kind)))
    assert row_hashes([column], [parse_type(kind)]).tolist() == [expected]


def test_the_hash_of_a_nanosecond_and_of_two_columns_is_that_of_paimon() -> None:
    stamp = pa.array([np.datetime64("2024-02-01T00:00:00.000000001", "ns")])
    assert row_hashes([stamp], [parse_type("TIMESTAMP(9)")]).tolist() == [1180095013]
    assert row_hashes([pa.array(["s1"]), pa.array([-3], pa.int64())], [STRING, BIGINT]).tolist() == [524267505]


def one_by_one(columns: list[pa.Array], kinds: list[DataType]) -> list[int]:
    rows = zip(*(python_values(c) for c in columns), strict=True)
    return [murmur_one(encode_row(row, kinds)[4:]) for row in rows]


KINDS = [
    parse_type(t)
    for t in (
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "DECIMAL(9, 2)",
        "DECIMAL(18, 4)", "DECIMAL(38, 10)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE", "STRING", "BYTES", "CHAR(3)",
    )
]  # fmt: skip


def random_column(kind: DataType, rows: int, seed: int, nulls: bool) -> pa.Array:
    random = np.random.default_rng(seed)
    wanted = arrow_type(kind)
    missing = random.random(rows) < (0.3 if nulls else 0)
    numbers = random.integers(-100, 100, rows)
    if pa.types.is_string(wanted) or pa.types.is_binary(wanted):
        values = ["é" * int(n % 40) + "x" * int(n % 3) for n in numbers]
        return pa.array([None if m else v for v, m in zip(values, missing, strict=True)]).cast(wanted)
    if pa.types.is_decimal(wanted):
        return pa.array([None if m else Decimal(int(n)) for n, m in zip(numbers, missing, strict=True)], wanted)
    if pa.types.is_boolean(wanted):
        return pa.array(numbers > 0, mask=missing)
    numbers = np.abs(numbers) if pa.types.is_time(wanted) else numbers
    width = pa.int32() if pa.types.is_date(wanted) or pa.types.is_time(wanted) else pa.int64()
    plain = pa.array(numbers, mask=missing).cast(width)
    return plain.cast(wanted)


@pytest.mark.parametrize("nulls", [False, True], ids=["without nulls", "with nulls"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: str(k.to_json()))
def test_hashes_of_many_rows_are_those_of_each(kind: DataType, nulls: bool) -> None:
    columns = [
        random_column(kind, 200, 1, nulls),
        random_column(STRING, 200, 2, nulls),
        random_column(kind, 200, 3, nulls),
    ]
    kinds = [kind, STRING, kind]
    assert row_hashes(columns, kinds).tolist() == one_by_one(columns, kinds)
    sliced = [c.slice(7, 100) for c in columns]
    assert row_hashes(sliced, kinds).tolist() == one_by_one(columns, kinds)[7:107]


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.binary(max_size=40)), max_size=20))
def test_hashes_of_any_text_and_bytes_are_those_of_each(rows: list[tuple[str | None, bytes | None]]) -> None:
    kinds = [STRING, parse_type("BYTES")]
    columns = [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.binary())]
    assert row_hashes(columns, kinds).tolist() == one_by_one(columns, kinds)


def test_a_very_long_text_among_short_ones_hashes_the_same() -> None:
    values = ["a", "b" * 100_000, None, "c" * 1025, "d" * 1024, ""]
    column = pa.array(values)
    assert row_hashes([column], [STRING]).tolist() == one_by_one([column], [STRING])


def test_rows_of_several_chunks_and_of_other_arrow_types_hash_the_same() -> None:
    values = [f"user-{i}" for i in range(40_000)]
    plain = row_hashes([pa.array(values)], [STRING])
    assert plain[:50].tolist() == one_by_one([pa.array(values[:50])], [STRING])
    chunked = pa.chunked_array([values[:15_000], values[15_000:]])
    assert (row_hashes([chunked], [STRING]) == plain).all()
    assert (row_hashes([pa.array(values, pa.large_string())], [STRING]) == plain).all()
    assert (row_hashes([pa.array(values).dictionary_encode()], [STRING]) == plain).all()


def test_no_rows_have_no_hashes() -> None:
    assert row_hashes([pa.array([], pa.string())], [STRING]).tolist() == []
    assert row_hashes([pa.array([], pa.int64())], [BIGINT]).tolist() == []


def test_a_key_of_more_columns_than_one_head_holds_is_hashed_row_by_row() -> None:
    columns = [pa.array([i, None], pa.int32()) for i in range(60)]
    assert row_hashes(columns, [INT] * 60).tolist() == one_by_one(columns, [INT] * 60)


def test_a_table_without_fixed_buckets_has_bucket_0() -> None:
    batch = pa.record_batch({"id": [1, 2, 3]})
    assert bucket_of_rows(batch, new_schema([("id", BIGINT, None)])).tolist() == [0, 0, 0]
    assert bucket_of_rows(batch, new_schema([("id", BIGINT, None)], ["id"], [], {"bucket": "1"})).tolist() == [0, 0, 0]
    with pytest.raises(UnsupportedFeature, match="'bucket' = '-1'"):
        bucket_of_rows(batch, new_schema([("id", BIGINT, None)], ["id"]))


def test_the_mod_function_takes_the_remainder_that_is_never_negative() -> None:
    options = {"bucket": "4", "bucket-function.type": "mod"}
    schema = new_schema([("id", BIGINT, None)], ["id"], [], options)
    assert bucket_of_rows(pa.record_batch({"id": [-1, 0, 5]}), schema).tolist() == [3, 0, 1]
    text = new_schema([("id", STRING, None)], ["id"], [], options)
    with pytest.raises(InvalidOption, match="mod"):
        bucket_of_rows(pa.record_batch({"id": ["a"]}), text)
