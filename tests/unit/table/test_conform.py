from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.errors import InvalidSchema
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import parse_type
from lakelog.table.staging.conform import conform


def schema(keyed: bool = True):
    fields = [("id", parse_type("INT"), None), ("name", parse_type("STRING"), None)]
    return new_schema(fields, ("id",) if keyed else (), (), {"bucket": "1"} if keyed else {}, None, 0)


def batch(**columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("name", ["id", "ID"])
def test_columns_go_by_name_and_missing_ones_become_null_on_request(name: str) -> None:
    given = batch(**{name: pa.array([1, 2], pa.int64())})
    rows, kinds = conform(given, schema(), "db.t", missing="null")
    assert conform(given, schema(keyed=False), "db.t")[0].to_pylist() == rows.to_pylist()
    assert rows.schema.names == ["id", "name"]
    assert rows.column(0).type == pa.int32() and rows.column(1).null_count == 2
    assert kinds.tolist() == [0, 0]


def test_row_kinds_become_numbers() -> None:
    given = batch(id=[1, 1, 1, 1], name=list("abcd"), _row_kind=["+I", "-U", "+U", "-D"])
    _, kinds = conform(given, schema(), "db.t")
    assert kinds.dtype == np.int8 and kinds.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_a_row_that_replaces_another_has_all_columns(engine: str) -> None:
    table = replace(schema(), options={"bucket": "1", "merge-engine": engine})
    for given in (batch(id=[1]), batch(id=[1, 2], _row_kind=["-D", "+I"])):
        if engine != "deduplicate" and len(given) == 1:
            conform(given, table, "db.t")
        elif engine == "deduplicate":
            with pytest.raises(InvalidSchema, match="lack the column 'name', .* missing='null'"):
                conform(given, table, "db.t")
    if engine == "deduplicate":  # a delete needs its key alone
        assert conform(batch(id=[1], _row_kind=["-D"]), table, "db.t")[1].tolist() == [3]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_default_is_the_value_of_a_missing_column_and_never_of_null(engine: str) -> None:
    name = replace(schema().field("name"), default_value="none")
    table = replace(schema(), fields=(schema().field("id"), name), options={"bucket": "1", "merge-engine": engine})
    assert conform(batch(id=[1], name=pa.nulls(1)), table, "db.t")[0].column(1).to_pylist() == [None]
    # in a partial update, it would replace the older value
    found = conform(batch(id=[1]), table, "db.t")[0].column(1).to_pylist()
    assert found == ([None] if engine == "partial-update" else ["none"])


CITY = {"city": "Oslo", "zip": 150}
NESTED = {
    "struct": (
        "s",
        {
            "type": "ROW",
            "fields": [{"id": 2, "name": "city", "type": "STRING"}, {"id": 3, "name": "zip", "type": "BIGINT"}],
        },
        lambda v: v,
    ),
}
NESTED["array"] = ("s", {"type": "ARRAY", "element": NESTED["struct"][1]}, lambda v: [v, None])
NESTED["map"] = ("s", {"type": "MAP", "key": "STRING NOT NULL", "value": NESTED["struct"][1]}, lambda v: [("k", v)])


@pytest.mark.parametrize("inside", NESTED)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"zip": 150, "CITY": "Oslo"}, None),
        ({"ctiy": "Oslo", "zip": 150}, "has no field 'ctiy', did you mean 'city'"),
        ({**CITY, "street": "Main"}, "has no field 'street'. It has: city, zip"),
        ({"city": "Oslo"}, "has the field 'zip', which the structs of the rows lack"),
        ({**CITY, "City": "Bergen"}, "field 'city' occurs twice"),
        ({"city": "Oslo", "zip": "150"}, "zip' of table db.t is int64, but the rows have string"),
        ({"city": 1, "zip": 150}, "city' of table db.t is string, but the rows have int64"),
    ],
)
def test_fields_of_structs_go_by_name_as_columns_do(inside: str, given: dict, said: str | None) -> None:
    column, kind, around = NESTED[inside]
    table = new_schema(
        [("id", parse_type("INT"), None), (column, parse_type(kind), None)], ("id",), (), {"bucket": "1"}
    )
    value = around(given)
    as_map = pa.map_(pa.string(), pa.struct([(k, pa.scalar(v).type) for k, v in given.items()]))
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 2]), pa.array([value, None], as_map if inside == "map" else None)], ["id", column]
    )
    if said is None:
        for part in (rows, rows.slice(0, 1)):
            assert conform(part, table, "db.t")[0].column(1)[0].as_py() == around(CITY)
        return
    with pytest.raises(InvalidSchema) as error:
        conform(rows, table, "db.t")
    assert said in str(error.value)
    if "lack" in said:
        assert conform(rows, table, "db.t", missing="null")[0].column(1)[0].as_py() == around(
            {"city": "Oslo", "zip": None}
        )


TEXTS = ["x", None, "y", "x"]
ENCODED = {
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 0], pa.uint8()), pa.array(["x", "y"], pa.string_view())
    ),
    "view": pa.array(TEXTS, pa.string_view()),
    "runs": pc.run_end_encode(pa.array(TEXTS)),
    "runs of views": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3, 4], pa.int16()), pa.array(TEXTS, pa.string_view())
    ),
    "large": pa.array(TEXTS, pa.large_string()),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_encodings_of_other_programs_are_plain_text_in_every_place(encoding: str) -> None:
    column, sizes = ENCODED[encoding], pa.array([0, 1, 2, 3, 4], pa.int32())
    struct = pa.StructArray.from_arrays([column], ["s"])
    given = {
        "STRING": column,
        "ARRAY<STRING>": pa.ListArray.from_arrays(sizes, column),
        "ROW<STRING>": struct,
    }
    types = {
        "STRING": "STRING",
        "ARRAY<STRING>": {"type": "ARRAY", "element": "STRING"},
        "ROW<STRING>": {"type": "ROW", "fields": [{"id": 9, "name": "s", "type": "STRING"}]},
    }
    expected = {"STRING": TEXTS, "ARRAY<STRING>": [[t] for t in TEXTS], "ROW<STRING>": [{"s": t} for t in TEXTS]}
    for kind, values in given.items():
        table = new_schema([("c", parse_type(types[kind]), None)])
        rows = pa.RecordBatch.from_arrays([values], ["c"])
        assert conform(rows, table, "db.t")[0].column(0).to_pylist() == expected[kind]
        assert conform(rows.slice(1, 2), table, "db.t")[0].column(0).to_pylist() == expected[kind][1:3]


def test_a_double_that_a_float_does_not_have_is_refused() -> None:
    table = new_schema([("f", parse_type("FLOAT"), None)])
    assert conform(batch(f=[0.1, float("inf"), None]), table, "db.t")[0].column(0).null_count == 1
    with pytest.raises(InvalidSchema, match="column 'f' of table db.t is float: 1e\\+300 is outside the range"):
        conform(batch(f=[1.0, 1e300]), table, "db.t")


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
        (
            batch(id=pa.array([1, None], pa.int32()), name=["x", "y"]),
            True,
            "NULL in column 'id' of table db.t, which is primary key",
        ),
        (batch(id=[1], nam=["x"]), True, "no column 'nam', did you mean 'name'"),
        (batch(id=["x"]), True, "'id' of table db.t is int32, but the rows have string"),
        (batch(id=[2**40], name=["x"]), True, "'id'"),
        (batch(id=[1], ID=[1], name=["x"]), True, "column 'id' occurs twice"),
        (batch(name=["x"]), True, "'id' of table db.t is NOT NULL"),
        (batch(id=[1], _row_kind=["U"]), True, "'U' in row 0"),
        (batch(id=[1], _row_kind=["-D"]), False, "no primary key"),
    ],
)
def test_what_does_not_fit_is_named(rows, keyed, said) -> None:
    with pytest.raises(InvalidSchema) as error:
        conform(rows, schema(keyed), "db.t")
    assert said in str(error.value)


TEXT = {"type": "ARRAY", "element": "CHAR(3)"}
INNER: dict[str, tuple[Any, Any, Any]] = {
    "array": (TEXT, ["a", "b    ", None], ["a  ", "b  ", None]),
    "struct": (
        {
            "type": "ROW",
            "fields": [{"id": 9, "name": "c", "type": "CHAR(2)"}, {"id": 10, "name": "v", "type": "VARCHAR(2)"}],
        },
        {"c": "é", "v": "w     "},
        {"c": "é ", "v": "w "},
    ),
    "map": ({"type": "MAP", "key": "CHAR(2)", "value": "VARCHAR(1)"}, [("k", "v   ")], [("k ", "v")]),
    "array of structs": (
        {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 9, "name": "a", "type": TEXT}]}},
        [{"a": ["x"]}, None, {"a": None}],
        [{"a": ["x  "]}, None, {"a": None}],
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_texts_inside_of_values_have_the_length_of_their_type(name: str) -> None:
    kind, given, wanted = INNER[name]
    table = new_schema([("c", parse_type(kind), None)])
    column = pa.array([given, None, given], arrow_schema(table.fields).field("c").type)
    rows = pa.RecordBatch.from_arrays([column], ["c"])
    assert conform(rows, table, "db.t")[0].column(0).to_pylist() == [wanted, None, wanted]
    assert conform(rows.slice(1), table, "db.t")[0].column(0).to_pylist() == [None, wanted]
    assert conform(rows, table, "db.t", is_new=False)[0].column(0).to_pylist() == [given, None, given]
