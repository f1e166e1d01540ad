"""VARIANT columns that lakelog writes are read by Paimon's Java core, and its bytes are those that Paimon makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from paimon_variants import COLUMNS, JSON, VALUES

import lakelog
from depth import DEPTH
from json_texts import JSON_TEXTS
from lakelog import Lake, connect
from lakelog.errors import UnsupportedFeature
from lakelog.paimon.types.variant import variant_array
from lakelog.paimon.types.variant_bytes import from_json
from printed import canonical, printed_rows


def column(values: list[Any]) -> pa.Array:
    """A VARIANT column of JSON texts, (value, metadata) and None."""
    return variant_array([from_json(value) if isinstance(value, str) else value for value in values])


def batch() -> pa.Table:
    count = len(VALUES)
    parts = [column(VALUES), pa.array(range(count), pa.int32())]
    inside = pa.StructArray.from_arrays(parts, names=["p", "q"], mask=pa.array([i % 3 == 0 for i in range(count)]))
    many = pa.ListArray.from_arrays(pa.array([0, 0, *[5] * (count - 1)], pa.int32()), column([*VALUES[:4], None]))
    shifted = [None, *VALUES[1:]]
    return pa.table({"id": pa.array(range(count), pa.int32()), "v": column(shifted), "many": many, "inside": inside})


@pytest.fixture(params=["keyed", "rows", "logged"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create database g")
    key = "" if request.param == "rows" else ", primary key (id)"
    log = "true" if request.param == "logged" else "false"
    lake.sql(
        f"create table g.t (id int, v variant, many array<variant>, inside struct<p: variant, q: int>{key}) using "
        f"lakelog tblproperties ('bucket' = '{'-1' if not key else '1'}', 'log-store.enabled' = '{log}')"
    )
    table = lake.table("g.t")
    table.write(batch())
    table.write(pa.table({"id": pa.array([1000], pa.int32()), "v": column(['{"new": 1}'])}))
    table.seal()
    return lake


def ours(lake: Lake) -> list[str]:
    return sorted(map(canonical, printed_rows(lake.table("g.t").scan().to_arrow())))


def by_java(java: Any, lake: Lake) -> list[str]:
    names = java.names(lake.warehouse, "g", "t")
    return sorted(canonical(dict(zip(names, row, strict=True))) for row in java.rows(lake.warehouse, "g", "t"))


def test_paimon_reads_the_same_bytes_and_goes_on(written: Lake, java: Any) -> None:
    table = written.table("g.t")
    assert by_java(java, written) == ours(written)
    assert len(ours(written)) == len(VALUES) + 1
    rows = [(2000 + at, value, [value, None], (value, at)) for at, value in enumerate(VALUES)]
    java.write(written.warehouse, "g", "t", rows)
    table.compact()
    assert by_java(java, written) == ours(written)
    assert len(ours(written)) == 2 * len(VALUES) + 1


def test_the_bytes_of_json_are_those_of_paimon(java: Any) -> None:
    generic = java.paimon.data.variant.GenericVariant

    def check(text: str) -> None:
        theirs = generic.fromJson(text)
        assert from_json(text) == (bytes(theirs.value()), bytes(theirs.metadata())), text

    for text in JSON:
        check(text)
    settings(max_examples=DEPTH.cases(200), deadline=None, suppress_health_check=list(HealthCheck))(
        given(JSON_TEXTS)(check)
    )()


def test_a_shredded_column_is_refused_and_the_others_are_read(java: Any, tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    options = {"bucket": "1", "variant.inferShreddingSchema": "true"}
    java.create(warehouse, "t", COLUMNS, ["id"], (), options)
    java.write(warehouse, "g", "t", [(at, f'{{"a": {at}, "b": "x"}}', None, None) for at in range(9)])
    table = lakelog.connect(warehouse=warehouse).table("g.t")
    assert sorted(table.scan(columns=["id"]).to_arrow().column("id").to_pylist()) == list(range(9))
    with pytest.raises(UnsupportedFeature, match="shredded"):
        table.scan().to_arrow()
