from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidSchema
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.staging.conform import conform


def schema(keyed: bool = True):
    fields = [("id", parse_type("INT"), None), ("name", parse_type("STRING"), None)]
    return new_schema(fields, ("id",) if keyed else (), (), {"bucket": "1"} if keyed else {}, None, 0)


def batch(**columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_columns_go_by_name_and_missing_ones_become_null() -> None:
    rows, kinds = conform(batch(id=pa.array([1, 2], pa.int64())), schema(), "db.t")
    assert rows.schema.names == ["id", "name"]
    assert rows.column(0).type == pa.int32() and rows.column(1).null_count == 2
    assert kinds.tolist() == [0, 0]


def test_row_kinds_become_numbers() -> None:
    _, kinds = conform(batch(id=[1, 1, 1, 1], _row_kind=["+I", "-U", "+U", "-D"]), schema(), "db.t")
    assert kinds.dtype == np.int8 and kinds.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint64()])
def test_integers_become_decimals_if_their_values_fit(kind) -> None:
    fields = [("id", parse_type("INT"), None), ("amount", parse_type("DECIMAL(10, 2)"), None)]
    prices = new_schema(fields, ("id",), (), {"bucket": "1"}, None, 0)
    rows, _ = conform(batch(id=[1, 2], amount=pa.array([10**8 - 1, None], kind)), prices, "db.t")
    assert rows.column("amount").to_pylist() == [Decimal("99999999.00"), None]
    with pytest.raises(InvalidSchema, match="column 'amount' of table db.t .* does not fit in precision 10"):
        conform(batch(id=[1], amount=pa.array([10**8], kind)), prices, "db.t")


@pytest.mark.parametrize(
    ("rows", "keyed", "said"),
    [
        (batch(id=pa.array([1, None], pa.int32())), True, "NULL in column 'id' of table db.t, which is primary key"),
        (batch(id=[1], nam=["x"]), True, "no column 'nam', did you mean 'name'"),
        (batch(id=["x"]), True, "'id' of table db.t is int32, but the rows have string"),
        (batch(id=[2**40]), True, "'id'"),
        (batch(name=["x"]), True, "'id' of table db.t is NOT NULL"),
        (batch(id=[1], _row_kind=["U"]), True, "'U' in row 0"),
        (batch(id=[1], _row_kind=["-D"]), False, "no primary key"),
    ],
)
def test_what_does_not_fit_is_named(rows, keyed, said) -> None:
    with pytest.raises(InvalidSchema) as error:
        conform(rows, schema(keyed), "db.t")
    assert said in str(error.value)
