"""Records as Canal, TiCDC, Maxwell and plain producers send them, in the shapes of their documentation."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, InvalidOption
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.formats import log_format
from lakelog.options.option import Options
from lakelog.paimon.types.variant import VARIANT, json_texts
from records_of_formats import Given, canal, maxwell

PRODUCTS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("weight", pa.decimal128(10, 2)),
        ("made", pa.timestamp("us")),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("photo", pa.binary()),
    ]
)


def form_of(name: str, **options: str) -> LogFormat:
    return log_format(name).of_table(Options({key.replace("_", "."): value for key, value in options.items()}), "t")


def rows(form: LogFormat, *records: Any, schema: pa.Schema = PRODUCTS) -> list[dict[str, Any]]:
    """The rows of records, without the columns that are NULL."""
    values = [record if isinstance(record, bytes) else orjson.dumps(record) for record in records]
    found = form.decode(pa.array(values, pa.large_binary()), schema)
    found.validate(full=True)
    return [{k: v for k, v in row.items() if v is not None} for row in found.to_pylist()]


def test_a_record_of_canal_is_all_rows_of_a_statement_with_their_former_values() -> None:
    full = {"id": "111", "name": "tram", "weight": "5.18", "made": "2024-01-31 23:59:59.5", "day": "2024-01-31"}
    full |= {"ok": "1", "photo": "\xff\x00a"}
    update = canal(Given({"id": 1}, {"id": 1})) | {
        "data": [full, {**full, "id": "112", "name": None}],
        "old": [{"weight": "5.15"}, {"name": "bus", "id": "110"}],
    }
    expected = {
        "id": 111,
        "name": "tram",
        "weight": Decimal("5.18"),
        "made": dt.datetime(2024, 1, 31, 23, 59, 59, 500000),
    }
    expected |= {"day": dt.date(2024, 1, 31), "ok": True, "photo": b"\xff\x00a"}
    second = {**expected, "id": 112}
    del second["name"]
    assert rows(form_of("canal-json"), update) == [
        {**expected, "weight": Decimal("5.15"), "_row_kind": "-U"},
        {**expected, "_row_kind": "+U"},
        {**second, "id": 110, "name": "bus", "_row_kind": "-U"},
        {**second, "_row_kind": "+U"},
    ]


@pytest.mark.parametrize("old", ['{"name":null}', '{"n\\u0061me":null}', '{"name" : null, "weight":"1"}'])
def test_a_former_value_may_have_been_null(old: str) -> None:
    text = f'{{"old":[{old}],"type":"UPDATE","data":[{{"id":"1","name":"tram","weight":"1"}}]}}'
    assert "name" not in rows(form_of("canal-json"), text.encode())[0]
    one = f'{{"old":{old},"type":"update","data":{{"id":1,"name":"tram","weight":1}}}}'
    assert "name" not in rows(form_of("maxwell-json"), one.encode())[0]


def test_an_update_without_former_values_is_the_new_row_alone() -> None:
    for old in (None, [None]):
        record = {"type": "UPDATE", "data": [{"id": "1"}], "old": old}
        assert rows(form_of("canal-json"), record) == [{"id": 1, "_row_kind": "+U"}]
    assert rows(form_of("maxwell-json"), {"type": "update", "data": {"id": 1}}) == [{"id": 1, "_row_kind": "+U"}]


def test_what_changes_no_row_is_none() -> None:
    ddl = [{"type": kind, "isDdl": True, "data": None, "sql": "…"} for kind in ("CREATE", "ALTER", "ERASE", "QUERY")]
    ddl += [{"type": "TIDB_WATERMARK", "isDdl": False, "data": None}, {"type": "INSERT", "isDdl": True, "data": [{}]}]
    kept = {"type": "INSERT", "isDdl": False, "data": [{"id": "5"}]}
    assert rows(form_of("canal-json"), *ddl, kept, *ddl) == [{"id": 5, "_row_kind": "+I"}]
    odd = [{"type": "INSERT", "data": [{"id": 5}]}, {"type": "ALTER", "isDdl": True, "data": "x"}]
    assert rows(form_of("canal-json"), *ddl, *odd) == [{"id": 5, "_row_kind": "+I"}]
    none = [{"type": kind} for kind in ("bootstrap-start", "bootstrap-complete", "table-alter", "database-drop")]
    boot = {"type": "bootstrap-insert", "data": {"id": 5}}
    assert rows(form_of("maxwell-json"), *none, boot) == [{"id": 5, "_row_kind": "+I"}]


@pytest.mark.parametrize(("name", "record", "why"), [
    ("canal-json", {"type": "TRUNCATE", "isDdl": True}, "truncated"),
    ("canal-json", {"type": "MERGE", "data": []}, "field 'type' is 'MERGE': a change has one of INSERT"),
    ("canal-json", {"data": [{"id": "1"}]}, "field 'type' is None"),
    ("canal-json", {"type": "INSERT", "data": None, "sql": "insert"}, "binlog_format=ROW"),
    ("canal-json", {"type": "INSERT", "data": {"id": "1"}}, "field 'data' is .*not an array"),
    ("canal-json", {"type": "INSERT", "data": [None]}, "field 'data' is .*not an array"),
    ("canal-json", {"type": "INSERT", "data": [{"id": "1"}, {"id": "2", "name": "x"}]}, "different columns"),
    ("canal-json", {"type": "INSERT", "data": [{}] * 70_000}, "70000 rows"),
    ("canal-json", {"type": "UPDATE", "data": [{"id": "1"}], "old": []}, "former values of 1 rows"),
    ("canal-json", {"type": "UPDATE", "data": [{"id": "1"}], "old": ["x"]}, "field 'old'"),
    ("canal-json", {"type": "INSERT", "data": [{"id": "x"}]}, "field 'data.id'"),
    ("canal-json", {"type": "INSERT", "data": [{"photo": "\u0100"}]}, "field 'data.photo'"),
    ("canal-json", {"type": "INSERT", "data": [{"made": "0000-00-00 00:00:00"}]}, "field 'data.made'"),
    ("maxwell-json", {"type": "insert"}, "field 'data' of a record of type 'insert' is missing"),
    ("maxwell-json", {"type": "insert", "data": [1]}, "field 'data'"),
    ("maxwell-json", {"type": "update", "data": {"id": 1}, "old": [1]}, "field 'old'"),
    ("maxwell-json", {"type": "INSERT", "data": {"id": 1}}, "field 'type' is 'INSERT'"),
    ("maxwell-json", {"type": "insert", "data": {"made": 5}}, "BIGINT"),
    ("plain-json", {"id": True, "weight": [1]}, "weight"),
])  # fmt: skip
def test_a_record_that_is_no_change_says_why(name: str, record: dict[str, Any], why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        rows(form_of(name), record)


def test_values_of_maxwell_are_json() -> None:
    data = {"id": 1, "name": ["a", "b"], "weight": 5.15, "made": "2016-10-21 05:33:37.523000", "photo": "/wA="}
    found = rows(form_of("maxwell-json"), maxwell(Given(None, data)), maxwell(Given({**data, "weight": 5.1}, data)))
    row = {
        "id": 1,
        "name": '["a","b"]',
        "weight": Decimal("5.15"),
        "made": dt.datetime(2016, 10, 21, 5, 33, 37, 523000),
    }
    row |= {"photo": b"\xff\x00"}
    assert [{**found[0], "_row_kind": ""}, found[1]["weight"]] == [{**row, "_row_kind": ""}, Decimal("5.10")]
    doc = pa.schema([("doc", VARIANT)])
    texts = ('{"a":[1.10,null]}', "[]", "true", "1.50", '"{}"')
    values = [f'{{"type":"insert","data":{{"doc":{text}}}}}'.encode() for text in texts]
    found_docs = form_of("maxwell-json").decode(pa.array(values, pa.large_binary()), doc)["doc"].combine_chunks()
    assert json_texts(found_docs).to_pylist() == ['{"a":[1.10,null]}', "[]", "true", "1.50", "{}"]


def test_records_of_other_tables_are_none_whatever_they_hold() -> None:
    mine = canal(Given(None, {"id": 5}))
    other = canal(Given(None, {"id": "x"})) | {"table": "orders_old"}
    strange = [{**other, "data": 7}, {**other, "database": None}, {"type": "INSERT"}, {**mine, "database": 5}]
    form = form_of("canal-json", **{"log-store.include.table": "orders|items", "log-store.include.database": "sh.p"})
    assert rows(form, mine, other, *strange) == rows(form, mine, other) == [{"id": 5, "_row_kind": "+I"}]
    assert form.lacking(pa.array([orjson.dumps(other), orjson.dumps(mine)], pa.large_binary()), ["id", "name"]) == [
        frozenset(),
        {"name"},
    ]
    with pytest.raises(InvalidOption, match=r"log-store\.include\.table' = '\(' is no regular expression"):
        form_of("canal-json", **{"log-store.include.table": "("})


@pytest.mark.parametrize(("key_format", "key", "row"), [
    ("json", b'{"id":3}', {"id": 3}),
    ("json", b'{"ID":3}', {"id": 3}),
    ("json", b"3", {"id": 3}),
    ("json", b'{"schema":{},"payload":{"id":3}}', {"id": 3}),
    ("text", b"3", {"id": 3}),
])  # fmt: skip
def test_a_key_without_a_value_deletes_its_row(key_format: str, key: bytes, row: dict[str, Any]) -> None:
    form = form_of("plain-json", **{"log-store.key-format": key_format})
    keys = pa.array([key, None, key, key], pa.large_binary())
    values = pa.array([b'{"id":3}', None, None, b'-{"id":3}'], pa.large_binary())
    found = form.completed(keys, values, ["id"])
    assert found[1].as_py() is None
    assert rows(form, *found.to_pylist()[::2]) == [{"id": 3, "_row_kind": "+I"}, {**row, "_row_kind": "-D"}]
    with pytest.raises(Corrupt):  # a producer's value is never taken for a deletion
        rows(form, found[3].as_py())
    assert form_of("plain-json").completed(keys, values, ["id"]).equals(values)


def test_a_key_that_is_none_is_a_bad_record() -> None:
    for key_format, key in (("text", b"\xff"), ("json", b"\xff"), ("json", b"x"), ("json", b"[1]")):
        form = form_of("plain-json", **{"log-store.key-format": key_format})
        gone = form.completed(pa.array([key], pa.large_binary()), pa.array([None], pa.large_binary()), ["id"])
        with pytest.raises(Corrupt):
            rows(form, gone[0].as_py())


def test_flattened_records_of_debezium_have_its_encodings() -> None:
    form = form_of("plain-json", **{"debezium.time.precision.mode": "adaptive"})
    assert rows(form, {"id": 1, "made": 1_000_000, "day": 1}) == [
        {"id": 1, "made": dt.datetime(1970, 1, 1, 0, 0, 1), "day": dt.date(1970, 1, 2), "_row_kind": "+I"}
    ]
