"""Records of Debezium connectors become the rows of their source, or an error that names the field."""

from __future__ import annotations

import base64
import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.connect_columns import _unscaled, _variable_decimals
from lakelog.logstore.encoding.record_format import MALFORMED, LogFormat
from lakelog.logstore.formats import log_format
from lakelog.options.option import Options
from lakelog.paimon.types.variant import VARIANT, json_texts
from recorded_changes import BARE, SCHEMAS, recorded

FORM = log_format("debezium-json")
DECIMAL = "org.apache.kafka.connect.data.Decimal"
PRECISE = {"debezium.decimal.handling.mode": "precise", "debezium.time.precision.mode": "adaptive"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("ms")),
        ("at6", pa.timestamp("us")),
        ("atz", pa.timestamp("us", "UTC")),
        ("span", pa.int64()),
        ("doc", pa.string()),
        ("feel", pa.string()),
        ("u", pa.string()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.int32())),
        ("words", pa.list_(pa.string())),
        ("ok", pa.bool_()),
        ("f4", pa.float32()),
        ("f8", pa.float64()),
        ("small", pa.int16()),
        ("flags", pa.binary()),
        ("flag", pa.bool_()),
    ]
)
ANT: dict[str, Any] = {
    "id": 1,
    "name": "ant",
    "price": Decimal("12.50"),
    "day": dt.date(2024, 1, 31),
    "at": dt.datetime(2024, 1, 31, 23, 59, 59, 123000),
    "at6": dt.datetime(2024, 1, 31, 23, 59, 59, 123456),
    "atz": dt.datetime(2024, 1, 31, 21, 59, 59, 123456, tzinfo=dt.UTC),
    "span": 93_600_000_000,
    "doc": '{"a": [1, 2]}',
    "feel": "happy",
    "u": "00000000-0000-0000-0000-00000000002a",
    "raw": b"\x00\xff",
    "tags": [1, None, 3],
    "words": ["x", "y"],
    "ok": True,
    "f4": 1.5,
    "f8": 2.25,
    "small": 7,
    "flags": b"\x05",
    "flag": True,
}
BEE: dict[str, Any] = {
    "price": Decimal("-0.01"),
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    "at6": dt.datetime(1, 1, 1),
    "atz": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    "span": -7_889_400_000_000,
    "raw": b"",
    "tags": [],
    "words": None,
    "flags": b"",
    "flag": False,
}


def values_of(name: str, **more: str) -> pa.LargeBinaryArray:
    return pa.array([value for _, value in recorded(name, **more) if value is not None], pa.large_binary())


def form_of(name: str) -> LogFormat:
    return FORM.of_table(Options(PRECISE), "") if name == BARE else FORM


@pytest.mark.parametrize("name", [SCHEMAS, BARE])
def test_what_a_real_connector_wrote_are_the_rows_of_its_table(name: str) -> None:
    found = form_of(name).decode(values_of(name), SCHEMA)
    kinds = list(zip(found["_row_kind"].to_pylist(), found["id"].to_pylist(), strict=True))
    snapshot = [("+I", 1), ("+I", 2), ("+I", 3)]
    changed = [("+I", 4), ("+U", 1), ("-D", 2), ("+I", 20), ("-D", 3), ("-U", 4), ("+U", 4), ("-D", 4)]
    assert kinds == snapshot + changed, "snapshot reads are inserts; markers, messages and tombstones are nothing"
    rows = found.drop_columns(["_row_kind"]).to_pylist()
    assert rows[0] == ANT
    assert {column: rows[1][column] for column in BEE} == BEE
    assert str(rows[1]["f4"]) == "nan"
    assert rows[1]["f8"] == float("inf")
    assert rows[2] == dict.fromkeys(SCHEMA.names) | {"id": 3, "name": "cat"}
    assert rows[3]["price"] == Decimal("99999999.99")
    assert rows[4] == ANT | {"name": "ANT", "price": Decimal("13.00")}
    assert [row["price"] for row in rows[8:]] == [Decimal("99999999.99"), Decimal("1.00"), Decimal("1.00")]


def test_decimals_of_any_scale_and_times_have_the_connectors_schema() -> None:
    schema = pa.schema([("total", pa.decimal128(30, 10)), ("tod", pa.time32("ms"))])
    found = FORM.decode(values_of(SCHEMAS), schema).slice(0, 2)
    assert found["total"].to_pylist() == [Decimal("1234.5678"), Decimal("-99999999999999.5")]
    assert found["tod"].to_pylist() == [dt.time(23, 59, 59, 123000), dt.time(0)]


@pytest.mark.parametrize("name", [SCHEMAS, BARE])
def test_a_column_of_json_may_be_a_variant(name: str) -> None:
    found = form_of(name).decode(values_of(name), pa.schema([("id", pa.int64()), ("doc", VARIANT)]))
    assert json_texts(found["doc"].combine_chunks()).to_pylist()[0] == '{"a":[1,2]}'
    for wrong in ('"{"', '"a"', "1", "{}"):
        value = f'{{"op":"c","after":{{"id":1,"doc":{wrong}}}}}'.encode()
        with pytest.raises(Corrupt, match="doc|JSON"):
            FORM.decode(pa.array([value], pa.large_binary()), pa.schema([("doc", VARIANT)]))


def test_records_with_and_without_schemas_keep_their_order() -> None:
    mixed = [v for pair in zip(*(values_of(n).to_pylist() for n in (SCHEMAS, BARE)), strict=True) for v in pair]
    found = FORM.of_table(Options(PRECISE), "").decode(pa.array(mixed, pa.large_binary()), SCHEMA)
    assert found["id"].to_pylist()[:6] == [1, 1, 2, 2, 3, 3]
    one = form_of(BARE).decode(values_of(BARE), SCHEMA)
    assert found["id"].value_counts().to_pylist()[0]["counts"] == 2 * one["id"].to_pylist().count(1)


def test_spaces_and_another_order_of_the_fields_change_nothing() -> None:
    values = [json.loads(value) for value in values_of(SCHEMAS).to_pylist()]
    spaced = [json.dumps({"payload": v["payload"], "schema": v["schema"]}, indent=1).encode() for v in values]
    found = FORM.decode(pa.array(spaced, pa.large_binary()), SCHEMA)
    assert str(found.to_pylist()) == str(FORM.decode(values_of(SCHEMAS), SCHEMA).to_pylist()), "NaN equals NaN as text"


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 10**17, -(10**17), 10**37, -(10**37) + 1])
def test_decimals_in_bytes_are_exact(number: int) -> None:
    data = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    value = json.dumps({"op": "c", "after": {"d": base64.b64encode(data).decode()}}).encode()
    schema = pa.schema([("d", pa.decimal128(38, 2))])
    found = form_of(BARE).decode(pa.array([value, b'{"op":"c","after":{}}'], pa.large_binary()), schema)
    assert found["d"].to_pylist() == [Decimal(f"{number}e-2"), None]


@pytest.mark.parametrize(
    ("mode", "kind", "number"),
    [
        ("connect", pa.timestamp("us"), 1_000),
        ("adaptive", pa.timestamp("ms"), 1_000),
        ("adaptive", pa.timestamp("us"), 1_000_000),
        ("adaptive", pa.timestamp("ns"), 1_000_000_000),
        ("adaptive_time_microseconds", pa.timestamp("us"), 1_000_000),
    ],
)
def test_numbers_without_a_schema_are_in_the_unit_of_the_option(mode: str, kind: pa.DataType, number: int) -> None:
    form = FORM.of_table(Options({"debezium.time.precision.mode": mode}), "")
    value = b'{"op":"c","after":{"t":%d}}' % number
    found = form.decode(pa.array([value], pa.large_binary()), pa.schema([("t", kind)]))
    assert found["t"].cast(pa.timestamp("s")).to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, 1)]


def in_time(name: str, kind: str = "int64") -> dict[str, Any]:
    return {"type": kind, "name": f"io.debezium.time.{name}"}


def with_schema(kind: dict[str, Any], value: Any, op: str = "c") -> bytes:
    part = {"type": "struct", "field": "after", "fields": [{**kind, "field": "v"}]}
    schema = {"type": "struct", "name": "s.t.Envelope", "fields": [part]}
    return json.dumps({"schema": schema, "payload": {"op": op, "after": {"v": value}}}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("kind", "given", "want"),
    [
        (pa.time32("ms"), with_schema(in_time("MicroTime"), 3_600_001_000), dt.time(1, 0, 0, 1000)),
        (pa.timestamp("us"), with_schema(in_time("NanoTimestamp"), 1_000), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (
            pa.timestamp("us"),
            with_schema(in_time("IsoTimestamp", "string"), "2024-01-31T01:02:03Z"),
            dt.datetime(2024, 1, 31, 1, 2, 3),
        ),
        (pa.date32(), with_schema(in_time("IsoDate", "string"), "2024-01-31Z"), dt.date(2024, 1, 31)),
        (pa.string(), with_schema(in_time("Interval", "string"), "P1DT2H"), "P1DT2H"),
        (
            pa.timestamp("us", "UTC"),
            with_schema(in_time("ZonedTimestamp", "string"), "2024-01-31T01:02:03+02:00"),
            dt.datetime(2024, 1, 30, 23, 2, 3, tzinfo=dt.UTC),
        ),
        (pa.map_(pa.string(), pa.string()), with_schema({"type": "map"}, {"a": "b"}), [("a", "b")]),
        (
            pa.decimal128(5, 1),
            with_schema({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "1"}}, 1.5),
            Decimal("1.5"),
        ),
        (pa.string(), with_schema({"type": "string", "default": 'x,"payload":1'}, "y"), "y"),
    ],
)
def test_each_semantic_type_is_a_value_of_its_column(kind: pa.DataType, given: bytes, want: Any) -> None:
    assert FORM.decode(pa.array([given], pa.large_binary()), pa.schema([("v", kind)]))["v"].to_pylist() == [want]


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (pa.int64(), b'{"op":"t"}', "'op' is 't'.*truncated"),
        (pa.int64(), b'{"op":"x","after":{"v":1}}', "'op' is 'x'"),
        (pa.int64(), b'{"after":{"v":1}}', "'op' is None"),
        (pa.int64(), b'{"op":"c"}', "'after'.* is missing"),
        (pa.int64(), b'{"op":"d","before":null}', "'before' of a delete is missing.*REPLICA IDENTITY"),
        (pa.int64(), b'{"op":"c","after":{"v":"x"}}', "'after.v'"),
        (pa.int64(), b'{"op":"c","after":7}', "'after' is 7"),
        (pa.int16(), b'{"op":"c","after":{"v":70000}}', "."),
        (pa.timestamp("us"), b'{"op":"c","after":{"v":1}}', "'after.v'.*debezium.time.precision.mode"),
        (pa.decimal128(5, 2), b'{"op":"c","after":{"v":"BOI="}}', "'after.v'.*debezium.decimal.handling.mode"),
        (
            pa.string(),
            with_schema({"type": "string"}, "__debezium_unavailable_value"),
            "'after.v'.*REPLICA IDENTITY FULL",
        ),
        (pa.timestamp("ms"), with_schema(in_time("MicroTimestamp"), 1), "'after.v'.*lose data"),
        (
            pa.decimal128(38, 0),
            with_schema({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, "AQAAAAAAAAAAAAAAAAAAAAAA"),
            "'after.v'.*38 digits",
        ),
        (pa.date32(), with_schema(in_time("IsoDate", "string"), "soon"), "'after.v'"),
    ],
)
def test_what_cannot_be_understood_names_the_field(kind: pa.DataType, value: bytes, why: str) -> None:
    good = b'{"op":"c","after":{}}'
    for values in ([value], [good, value]):
        with pytest.raises(Corrupt, match=why):
            FORM.decode(pa.array(values, pa.large_binary()), pa.schema([("v", kind)]))


def test_a_first_record_of_null_does_not_end_the_process() -> None:
    """pyarrow's reader of JSON does that (26.0.1)."""
    code = (
        "import pyarrow as pa; from lakelog.errors import Corrupt; from lakelog.logstore.formats import log_format\n"
        "values = pa.array([b'null'], pa.large_binary())\n"
        "try: log_format('debezium-json').decode(values, pa.schema([('v', pa.int64())]))\n"
        "except Corrupt: print('corrupt')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "corrupt\n"), done.stderr


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("Name", pa.string()),
        ("price", pa.decimal128(38, 2)),
        ("s", pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.struct([("k", pa.string())])))])),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32())]))),
    ]
)
NESTED_ROW = {
    "id": 1, "Name": 'the "ID": of', "price": Decimal("123456789012345678901234567890.12"),
    "s": {"id": 7, "tags": [{"k": "x"}, None]}, "m": [("ID", {"v": 3})],
}  # fmt: skip
NESTED_JSON = (
    '{"%s":1,"%s":"the \\"ID\\": of","%s":"123456789012345678901234567890.12",'
    '"%s":{"%s":7,"%s":[{"%s":"x"},null]},"%s":{"ID":{"%s":3}}}'
)


@pytest.mark.parametrize(
    "names",
    [
        ("id", "Name", "price", "s", "id", "tags", "k", "m", "v"),
        ("ID", "NAME", "PRICE", "S", "ID", "TAGS", "K", "M", "V"),
        ("id", "name", "price", "s", "Id", "tags", "K", "m", "V"),
        ("ID", "Name", "price", "S", "id", "tags", "k", "m", "v"),
    ],
)
@pytest.mark.parametrize(
    "envelope", ['{"op":"c","before":null,"after":%s}', '{"schema":null,"payload":{"op":"d","before": %s }}']
)
def test_fields_are_found_without_regard_to_case(names: tuple[str, ...], envelope: str) -> None:
    record = (envelope % (NESTED_JSON % names)).encode()
    exact = (
        '{"op":"c","after":' + NESTED_JSON % ("id", "Name", "price", "s", "id", "tags", "k", "m", "v") + "}"
    ).encode()
    for values in ([record], [exact, record]):
        rows = FORM.decode(pa.array(values, pa.large_binary()), NESTED).to_pylist()
        assert [{k: v for k, v in row.items() if k != "_row_kind"} for row in rows] == [NESTED_ROW] * len(values)


def test_a_schema_of_a_connector_is_read_without_regard_to_case() -> None:
    fields = [{"field": "ID", "type": "int64"}, {"field": "DAY", "type": "int32", "name": "io.debezium.time.Date"}]
    images = [{"field": name, "type": "struct", "fields": fields} for name in ("before", "after")]
    value = {"schema": {"fields": images}, "payload": {"op": "c", "before": None, "after": {"ID": 5, "DAY": 1}}}
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    for text in (json.dumps(value, separators=(",", ":")), json.dumps(value)):
        (row,) = FORM.decode(pa.array([text.encode()], pa.large_binary()), schema).to_pylist()
        assert row == {"id": 5, "day": dt.date(1970, 1, 2), "_row_kind": "+I"}


def test_the_exact_name_wins_and_two_other_spellings_are_refused() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])

    def row(text: str) -> dict[str, Any]:
        values = pa.array([f'{{"op":"c","after":{text}}}'.encode()], pa.large_binary())
        return FORM.decode(values, schema).to_pylist()[0]

    assert row('{"ID":1,"id":2,"V":"x"}') == {"id": 2, "v": "x", "_row_kind": "+I"}
    assert row('{"id":1,"other":"V"}') == {"id": 1, "v": None, "_row_kind": "+I"}
    with pytest.raises(Corrupt, match="'Id' and 'ID' of a row are both column 'id'"):
        row('{"Id":1,"ID":2}')


TIMES: dict[str, tuple[pa.DataType, str, str | None]] = {
    "a year of five digits": (pa.timestamp("us"), "12024-01-01T00:00:00", "12024-01-01 00:00:00.000000"),
    "with an offset": (pa.timestamp("us", "UTC"), "12024-01-01T00:00:00+02:00", "12023-12-31 22:00:00.000000Z"),
    "beyond nanoseconds": (pa.timestamp("ns"), "12024-01-01 00:00:00", None),
    "beyond microseconds": (pa.timestamp("us"), "999999-01-01 00:00:00", None),
    "a moment as a date": (pa.date32(), "2024-01-01T23:00:00-05:00", None),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_time_in_text_is_read_exactly_or_refused(name: str) -> None:
    kind, text, wanted = TIMES[name]
    value = json.dumps({"before": None, "after": {"t": text}, "op": "c"}).encode()
    values, schema = pa.array([value], pa.large_binary()), pa.schema([("t", kind)])
    if wanted is not None:
        assert FORM.decode(values, schema).column("t").cast(pa.string()).to_pylist() == [wanted]
        return
    with pytest.raises((Corrupt, ValueError), match="is out of range|is a moment"):
        FORM.decode(values, schema)


BENT: dict[str, tuple[pa.DataType, str]] = {
    "a day that does not exist": (pa.date32(), '"2023-02-29"'),
    "a number beyond FLOAT": (pa.float32(), "1e300"),
    "a text beyond FLOAT": (pa.float32(), '"-1e39"'),
    "a digit too many with the scale": (pa.decimal128(5, 2), "1000"),
    "a fraction in a whole number": (pa.int8(), "1.5"),
    "a fraction in a date": (pa.date32(), "19000.5"),
    "digits beyond microseconds": (pa.timestamp("us"), '"2024-01-01 10:00:00.1234567"'),
    "text that is no base64": (pa.binary(), '"!!"'),
    "text after base64": (pa.binary(), '"AQ==AQ=="'),
}
AROUND: dict[str, Any] = {
    "column": (lambda kind: kind, "%s"),
    "array": (pa.list_, "[%s]"),
    "struct": (lambda kind: pa.struct([("x", kind)]), '{"x":%s}'),
    "map": (lambda kind: pa.map_(pa.string(), kind), '{"k":%s}'),
}


@pytest.mark.parametrize("place", AROUND)
@pytest.mark.parametrize("name", BENT)
def test_a_value_that_its_type_does_not_have_is_refused_at_any_depth(name: str, place: str) -> None:
    (kind, text), (around, form) = BENT[name], AROUND[place]
    value = f'{{"before":null,"after":{{"v":{form % text}}},"op":"c"}}'.encode()
    with pytest.raises(MALFORMED):
        FORM.decode(pa.array([value], pa.large_binary()), pa.schema([("v", around(kind))]))


@pytest.mark.parametrize("place", AROUND)
def test_the_largest_float_is_read_at_any_depth(place: str) -> None:
    around, form = AROUND[place]
    value = f'{{"before":null,"after":{{"v":{form % "3.4028235e38"}}},"op":"c"}}'.encode()
    rows = FORM.decode(pa.array([value], pa.large_binary()), pa.schema([("v", around(pa.float32()))]))
    assert "3.4028234663852886e+38" in str(rows.column("v")[0].as_py())


def test_decimals_of_null_structs_and_of_slices_are_null() -> None:
    """Readers may leave values under a NULL, and before the offset of a slice."""
    kind, parts = pa.decimal128(12, 3), [pa.array([3, 0, 3], pa.int32()), pa.array([b"x", b"", None], pa.binary())]
    column = pa.StructArray.from_arrays(parts, ["scale", "value"], mask=pa.array([False, True, False]))
    assert _variable_decimals(column, kind).to_pylist() == [Decimal("0.120"), None, None]
    assert _unscaled(pa.array([b"y", None, b"x", None]).slice(1), 3).to_pylist() == [None, Decimal("0.120"), None]
