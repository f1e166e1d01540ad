"""Changes in Avro of connectors with a schema registry are the rows that their JSON has, or a named error."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from avro_of_connect import as_avro
from lakelog.errors import Corrupt, InvalidOption, InvalidSchema, Unavailable
from lakelog.logstore.encoding import schema_registry
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.formats import log_format
from lakelog.options.option import Options
from lakelog.paimon.types.variant import VARIANT, json_texts
from recorded_changes import SCHEMAS, recorded
from servers.schema_registry import SchemaRegistry, message

TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(), "name": pa.string(), "price": pa.decimal128(10, 2), "total": pa.decimal128(30, 10),
    "day": pa.date32(), "at": pa.timestamp("ms"), "at6": pa.timestamp("us"), "atz": pa.timestamp("us", "UTC"),
    "span": pa.int64(), "doc": pa.string(), "feel": pa.string(), "u": pa.string(), "raw": pa.binary(),
    "tags": pa.list_(pa.int32()), "words": pa.list_(pa.string()), "ok": pa.bool_(), "f4": pa.float32(),
    "f8": pa.float64(), "small": pa.int16(), "flags": pa.binary(), "flag": pa.bool_(), "tod": pa.time32("ms"),
}  # fmt: skip
SCHEMA = pa.schema(list(TYPES.items()))
VALUE = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry()
    yield server
    server.close()


def form(registry: SchemaRegistry, **more: str) -> LogFormat:
    return log_format("avro").of_table(Options({"log-store.schema-registry.url": registry.url, **more}), "t")


def envelope(*fields: Any, **more: Any) -> dict[str, Any]:
    value = {"type": "record", "name": "Value", "fields": list(fields)}
    parts = [
        {"name": "before", "type": ["null", value], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": parts, **more}


def changes(registry: SchemaRegistry, schema: Any, *records: Any) -> pa.LargeBinaryArray:
    number = registry.add("t-value", schema)
    values = [message(number, schema, {"before": None, "after": None, **record}) for record in records]
    return pa.array(values, pa.large_binary())


def test_a_connectors_avro_has_the_rows_of_its_json(registry: SchemaRegistry) -> None:
    values = [value for _, value in recorded(SCHEMAS) if value is not None]
    avro = [as_avro(registry, "t-value", value) for value in values]
    found = form(registry).decode(pa.array([v for v in avro if v is not None], pa.large_binary()), SCHEMA)
    expected = log_format("debezium-json").decode(pa.array(values, pa.large_binary()), SCHEMA)
    assert found.num_rows == expected.num_rows == 11
    assert str(found.to_pylist()) == str(expected.to_pylist()), "NaN equals NaN as text"
    assert [asked for asked in registry.asked if "schemas" in asked] == sorted(set(registry.asked)), "each id once"


def test_a_connectors_keys_are_read(registry: SchemaRegistry) -> None:
    keys = [key for key, value in recorded(SCHEMAS) if value is not None and b'"type":"int64"' in (key or b"")]
    avro = pa.array([as_avro(registry, "t-key", key) for key in keys], pa.large_binary())
    found = form(registry).decode_keys(avro, pa.schema([("ID", pa.int64())]))
    assert found["ID"].to_pylist() == [json.loads(key or b"")["payload"]["id"] for key in keys]


def test_json_of_a_connector_may_be_a_variant(registry: SchemaRegistry) -> None:
    schema = envelope({"name": "doc", "type": {"type": "string", "connect.name": "io.debezium.data.Json"}})
    values = changes(registry, schema, {"after": {"doc": '{"a": 1}'}, "op": "c"})
    found = form(registry).decode(values, pa.schema([("doc", VARIANT)]))
    assert json_texts(found["doc"].combine_chunks()).to_pylist() == ['{"a":1}']


def test_schemas_of_one_batch_may_differ(registry: SchemaRegistry) -> None:
    """A column is added, dropped, and widened between records, and capitals are the same column."""
    first = envelope({"name": "ID", "type": "int"}, {"name": "old", "type": "string"})
    second = envelope({"name": "id", "type": "long"}, {"name": "new", "type": ["null", "double"], "default": None})
    parts = [
        changes(
            registry, first, {"after": {"ID": 1, "old": "a"}, "op": "c"}, {"after": {"ID": 2, "old": "b"}, "op": "r"}
        ),
        changes(registry, second, {"before": {"id": 2, "new": None}, "after": {"id": 2**40, "new": 0.5}, "op": "u"}),
        changes(registry, first, {"before": {"ID": 1, "old": "a"}, "op": "d"}),
    ]
    schema = pa.schema([("id", pa.int64()), ("old", pa.string()), ("new", pa.float64())])
    found = form(registry).decode(pa.concat_arrays(parts), schema).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, "a", None, "+I"),
        (2, "b", None, "+I"),
        (2, None, None, "-U"),
        (2**40, None, 0.5, "+U"),
        (1, "a", None, "-D"),
    ]
    lacks = form(registry).lacking(pa.concat_arrays(parts), ["id", "old", "new"])
    assert lacks == [frozenset({"new"}), frozenset({"new"}), frozenset({"old"}), frozenset()]


def test_logical_types_of_avro_have_their_values(registry: SchemaRegistry) -> None:
    date = {"type": "int", "logicalType": "date"}
    nested = {"type": "record", "name": "S", "fields": [{"name": "A", "type": date}]}
    before = dt.datetime(1969, 12, 31, 23, 59, 59, 999000)
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "d": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\xff\x85", Decimal("-1.23")),
        "f": ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}, b"\0\7", Decimal(7)),
        "day": (date, -1, dt.date(1969, 12, 31)),
        "ms": ({"type": "long", "logicalType": "local-timestamp-millis"}, -1, before),
        "us": ({"type": "long", "logicalType": "timestamp-micros"}, 0, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        "tod": ({"type": "long", "logicalType": "time-micros"}, 1_000, dt.time(0, 0, 0, 1000)),
        "e": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", "b"),
        "m": ({"type": "map", "values": date}, {"x": 0}, [("x", dt.date(1970, 1, 1))]),
        "s": (nested, {"A": 1}, {"a": dt.date(1970, 1, 2)}),
    }  # fmt: skip
    columns = {
        "d": pa.decimal128(9, 2), "f": pa.decimal128(4, 0), "day": pa.date32(), "ms": pa.timestamp("ms"),
        "us": pa.timestamp("us", "UTC"), "tod": pa.time32("ms"), "e": pa.string(),
        "m": pa.map_(pa.string(), pa.date32()), "s": pa.struct([("a", pa.date32())]),
    }  # fmt: skip
    raw = {name: (kind if name in ("f", "e", "m", "s") else kind["type"]) for name, (kind, _, _) in kinds.items()}
    schema = envelope(*({"name": name, "type": kind} for name, (kind, _, _) in kinds.items()))
    number = registry.add("t-value", schema)
    plain = envelope(*({"name": name, "type": _raw(kind)} for name, kind in raw.items()))
    after = {name: value for name, (_, value, _) in kinds.items()}
    value = message(number, plain, {"before": None, "after": after, "op": "c"})
    found = form(registry).decode(pa.array([value, value], pa.large_binary()), pa.schema(list(columns.items())))
    assert found.drop_columns(["_row_kind"]).to_pylist() == [{name: want for name, (_, _, want) in kinds.items()}] * 2


def _raw(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {key: _raw(value) for key, value in kind.items() if key != "logicalType"}
    return [_raw(part) for part in kind] if isinstance(kind, list) else kind


def test_schemas_may_refer_to_others(registry: SchemaRegistry) -> None:
    registry.add("value", {**VALUE, "namespace": "shop.orders"})
    schema = {
        "type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": [
            {"name": "after", "type": ["null", "Value"]}, {"name": "op", "type": "string"},
        ],
    }  # fmt: skip
    number = registry.add("t-value", schema, references=[{"name": "x", "subject": "value", "version": 1}])
    whole = {**schema, "fields": [{"name": "after", "type": ["null", VALUE]}, {"name": "op", "type": "string"}]}
    value = message(number, whole, {"after": {"id": 5}, "op": "c"})
    found = form(registry).decode(pa.array([value], pa.large_binary()), pa.schema([("id", pa.int64())]))
    assert found["id"].to_pylist() == [5]


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
ZEROS = {"type": "array", "items": {"type": "record", "name": "Z", "fields": []}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (VALUE, "no envelope"),
        ('"string"', "no record"),
        (envelope({"name": "n", "type": NODE}), "contains itself"),
        (envelope({"name": "n", "type": ZEROS}), "zero bytes"),
        (envelope({"name": "n", "type": "Nobody"}), "Nobody"),
        (envelope({"name": "n", "type": "int"}, {"name": "n", "type": "int"}), "two fields"),
        (envelope({"name": "n", "type": {"type": "array"}}), "where a type should be"),
        (envelope({"name": "id", "type": ["int", "string"]}), "union of several types"),
        (envelope(*({"name": f"n{n}", "type": "null"} for n in range(60))), "take no byte"),
    ],
)
def test_a_schema_that_has_no_rows_is_named(registry: SchemaRegistry, schema: Any, why: str) -> None:
    number = registry.add("t-value", schema)
    value = b"\0" + number.to_bytes(4, "big") + b"\0\0\0\0"
    with pytest.raises(Corrupt, match=why):
        form(registry).decode(pa.array([value], pa.large_binary()), pa.schema([("id", pa.int64()), ("n", pa.int64())]))


def test_schemas_of_many_types_are_refused(registry: SchemaRegistry) -> None:
    """Each record has the last one twice: some bytes of schema would be a million types."""
    fields: list[Any] = [
        {"name": "r0", "type": {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}}
    ]
    for n in range(1, 20):
        parts = [{"name": side, "type": f"R{n - 1}"} for side in ("a", "b")]
        fields.append({"name": f"r{n}", "type": {"type": "record", "name": f"R{n}", "fields": parts}})
    number = registry.add("t-value", envelope(*fields))
    with pytest.raises(Corrupt, match="10000 types"):
        form(registry).decode(pa.array([b"\0" + number.to_bytes(4, "big")], pa.large_binary()), pa.schema([]))


def test_an_unknown_id_names_itself_and_the_registry(registry: SchemaRegistry) -> None:
    for _ in range(3):
        with pytest.raises(Corrupt, match=f"{registry.url} has no schema with id 77: Schema not found"):
            form(registry).decode(pa.array([b"\0\0\0\0\x4d\0"], pa.large_binary()), pa.schema([("id", pa.int64())]))
    assert registry.asked == ["GET /schemas/ids/77"], "asked once in ten seconds"


@pytest.mark.parametrize("value", [b"", b"\0", b"\1\0\0\0\1\0", b'{"op":"c"}'])
def test_a_value_without_an_id_is_refused(registry: SchemaRegistry, value: bytes) -> None:
    with pytest.raises(Corrupt, match="does not begin with a zero byte"):
        form(registry).decode(pa.array([value], pa.large_binary()), pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize("kind", ["string", "bytes"])
def test_a_value_that_debezium_did_not_receive_is_an_error(registry: SchemaRegistry, kind: str) -> None:
    marker: Any = "__debezium_unavailable_value"
    values = changes(
        registry,
        envelope({"name": "big", "type": kind}),
        {"after": {"big": marker.encode() if kind == "bytes" else marker}, "op": "u"},
    )
    column = pa.string() if kind == "string" else pa.binary()
    with pytest.raises(Corrupt, match="REPLICA IDENTITY FULL"):
        form(registry).decode(values, pa.schema([("big", column)]))


def test_a_registry_that_does_not_answer_is_no_bad_record(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "_PAUSE_S", 0.001)
    number = registry.add("t-value", envelope({"name": "id", "type": "long"}))
    reader = form(registry)
    registry.close()
    with pytest.raises(Unavailable, match=registry.url):
        reader.decode(pa.array([b"\0" + number.to_bytes(4, "big")], pa.large_binary()), pa.schema([("id", pa.int64())]))


def test_an_incompatible_change_of_columns_is_the_registrys_error(registry: SchemaRegistry) -> None:
    registry.refuses.add("t-value")
    batch = pa.RecordBatch.from_pydict({"id": [1]})
    with pytest.raises(InvalidSchema, match="subject 't-value'.*incompatible"):
        form(registry).encode(batch, np.zeros(1, np.int8), "all", ["id"], b"")


def test_credentials_go_to_an_allowed_registry_only(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hush")
    options = {
        "log-store.schema-registry.username": "me",
        "log-store.schema-registry.password": "secret:env:REGISTRY_PASSWORD",
    }
    values = changes(registry, envelope({"name": "id", "type": "long"}), {"after": {"id": 1}, "op": "c"})
    reader = form(registry, **options)
    assert "hush" not in repr(vars(reader))
    with pytest.raises(InvalidOption, match="LAKELOG_SECRETS"):
        reader.decode(values, pa.schema([("id", pa.int64())]))
    assert registry.asked == []
    monkeypatch.setenv("LAKELOG_SECRETS", f"env:REGISTRY_PASSWORD@{registry.url.removeprefix('http://')}")
    assert reader.decode(values, pa.schema([("id", pa.int64())]))["id"].to_pylist() == [1]
    assert registry.authorization == {"Basic bWU6aHVzaA=="}


@pytest.mark.parametrize("url", ["", "registry:8081", "file:///etc/passwd", "ftp://r", "http://me:hush@r:8081"])
def test_what_is_no_address_of_a_registry_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match=r"log-store\.schema-registry\.url") as raised:
        log_format("avro").of_table(Options({"log-store.schema-registry.url": url}), "t")
    assert "hush" not in str(raised.value)
