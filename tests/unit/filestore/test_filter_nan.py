"""NaN and zeros in filters: NaN is equal to itself and above all numbers, also where Parquet's statistics lack it."""

from __future__ import annotations

import math
import operator

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.filestore.skipping.predicate import Compare, In, Not

NAN = float("nan")
VALUES = [3.0, NAN, None, 3.0]
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


@pytest.fixture(scope="module", params=["double", "float"])
def table(request, tmp_path_factory):
    with connect(warehouse=str(tmp_path_factory.mktemp("nan"))) as lake:
        lake.sql(f"create database db; create table db.t (id int, v {request.param}) tblproperties ('bucket' = '-1')")
        table = lake.table("db.t")
        kind = pa.float64() if request.param == "double" else pa.float32()
        table.write(pa.table({"id": pa.array(range(4), pa.int32()), "v": pa.array(VALUES, kind)}))
        yield table


@pytest.mark.parametrize("value", [1.0, 3.0, 4.0, NAN])
@pytest.mark.parametrize("op", OPERATORS)
def test_comparisons(table, op: str, value: float) -> None:
    known = [i for i, v in enumerate(VALUES) if v is not None]
    wanted = [i for i in known if OPERATORS[op](order(VALUES[i]), order(value))]
    found = table.scan().where(Compare("v", op, value)).to_arrow()["id"].to_pylist()
    assert found == wanted
    others = table.scan().where(Not(Compare("v", op, value))).to_arrow()["id"].to_pylist()
    assert others == [i for i in known if i not in wanted]


def test_lists(table) -> None:
    for values, wanted in (((NAN,), [1]), ((3.0, NAN), [0, 1, 3]), ((3.0,), [0, 3])):
        assert table.scan().where(In("v", values)).to_arrow()["id"].to_pylist() == wanted


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("others", [(), (7.0,)])
def test_zeros_are_equal_in_lists_whatever_their_sign(tmp_path, zero: float, others: tuple[float, ...]) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database db; create table db.t (id int, v double)")
        lake.write(pa.table({"id": pa.array([0, 1, 2], pa.int32()), "v": [0.0, -0.0, 1.0]}), "db.t")
        scan = lake.table("db.t").scan()
        assert sorted(scan.where(In("v", (zero, *others))).to_arrow()["id"].to_pylist()) == [0, 1]
        assert scan.where(Not(In("v", (zero, *others)))).to_arrow()["id"].to_pylist() == [2]


def test_nan_next_to_one_other_value(tmp_path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database db; create table db.t (id int, v double) tblproperties ('bucket' = '-1')")
        table = lake.table("db.t")
        table.write(pa.table({"id": pa.array([0, 1], pa.int32()), "v": [NAN, 3.0]}))
        for predicate in (Compare("v", ">", 4.0), Compare("v", "=", NAN), Compare("v", "!=", 3.0), In("v", (NAN, 4.0))):
            assert table.scan().where(predicate).to_arrow()["id"].to_pylist() == [0]
        assert table.scan().where(Compare("v", "<", 3.0)).to_arrow().num_rows == 0
