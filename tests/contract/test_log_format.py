"""What every log format that lakelog writes does: rows of all types come back, and changes keep their kinds."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import DEPTH
from json_texts import JSON_TEXTS
from lakelog.errors import Corrupt
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.formats import LOG_FORMATS, log_format
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.types.variant import VARIANT
from lakelog.paimon.types.variant_bytes import from_json
from ready_formats import ready_format

HEADER = b"1|d|w|0|a"
WRITTEN = [name for name in sorted(LOG_FORMATS) if LOG_FORMATS.load(name).is_written]
ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


@pytest.fixture(params=WRITTEN)
def form(request: pytest.FixtureRequest) -> LogFormat:
    return ready_format(request.param)


def finite(width: int) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False)


def times_of_day() -> st.SearchStrategy[dt.time]:
    return st.builds(lambda ms: (dt.datetime.min + dt.timedelta(milliseconds=ms)).time(), st.integers(0, 86_399_999))


INSTANTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
WHOLE_MS = INSTANTS.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
UTC_INSTANTS = INSTANTS.map(lambda t: t.replace(tzinfo=dt.UTC))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)

LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), finite(32)),
    (pa.float64(), finite(64)),
    (pa.float64(), st.sampled_from([1.5, float("inf"), float("-inf")])),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=8)),
    (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    (pa.decimal128(10, 0), st.integers(-(10**10) + 1, 10**10 - 1).map(Decimal)),
    (pa.date32(), st.dates()),
    (pa.time32("ms"), times_of_day()),
    (pa.timestamp("ms"), WHOLE_MS),
    (pa.timestamp("us"), INSTANTS),
    (pa.timestamp("us", "UTC"), UTC_INSTANTS),
    (VARIANT, JSON_TEXTS.map(lambda text: dict(zip(("value", "metadata"), from_json(text), strict=True)))),
]


def types() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """A type and its values: leaves, lists, rows and maps of them."""

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = inner.map(lambda t: (pa.list_(t[0]), st.lists(st.none() | t[1], max_size=3)))
        rows = inner.map(
            lambda t: (pa.struct([("a", t[0]), ("b", pa.int32())]), st.fixed_dictionaries({"a": t[1], "b": st.none()}))
        )
        maps = inner.map(lambda t: (pa.map_(pa.string(), t[0]), st.dictionaries(TEXT, t[1], max_size=3).map(as_pairs)))
        numbered = inner.map(
            lambda t: (pa.map_(pa.int32(), t[0]), st.dictionaries(st.integers(0, 9), t[1], max_size=3).map(as_pairs))
        )
        return lists | rows | maps | numbered

    return st.recursive(st.sampled_from(LEAVES), nested, max_leaves=3)


def as_pairs(found: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return list(found.items())


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind, values = draw(types())
    return pa.array(draw(st.lists(st.none() | values, min_size=1, max_size=5)), kind)


@settings(max_examples=DEPTH.cases(150))
@given(column=columns())
@pytest.mark.parametrize("name", WRITTEN)
def test_every_value_comes_back_as_it_was(name: str, column: pa.Array) -> None:
    form = ready_format(name)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("value", column.type)])
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(column)), pa.int64()), column], schema=schema)
    records, _ = form.encode(batch, np.zeros(len(column), np.int8), "all", ["id"], HEADER)
    found = form.decode(records.values, schema)
    assert found.column("value").type == column.type
    assert found.column("value").to_pylist() == column.to_pylist()
    keys = form.decode_keys(records.keys, pa.schema([schema.field("id")]))
    assert keys.column("id").to_pylist() == list(range(len(column)))


def test_nanoseconds_come_back(form: LogFormat) -> None:
    for zone in (None, "UTC"):
        column = pa.array([1, -1, 1_700_000_000_123_456_789, None], pa.timestamp("ns", zone))
        schema = pa.schema([pa.field("t", column.type)])
        batch = pa.RecordBatch.from_arrays([column], schema=schema)
        records, _ = form.encode(batch, np.zeros(4, np.int8), "all", [], HEADER)
        assert form.decode(records.values, schema).column("t").combine_chunks().equals(column)


def test_not_a_number_comes_back(form: LogFormat) -> None:
    schema = pa.schema([pa.field("f", pa.float64())])
    batch = pa.RecordBatch.from_arrays([pa.array([float("nan"), 1.0, None, -0.0])], schema=schema)
    records, _ = form.encode(batch, np.zeros(4, np.int8), "all", [], HEADER)
    assert list(map(str, form.decode(records.values, schema).column("f").to_pylist())) == ["nan", "1.0", "None", "-0.0"]


def changes(*rows: tuple[int, int, str | None]) -> tuple[pa.RecordBatch, np.ndarray]:
    kinds, ids, names = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({"id": ids, "name": names}, schema=ROWS), np.array(kinds, np.int8)


MIXED = changes(
    (INSERT, 1, "a"),
    (UPDATE_BEFORE, 1, "a"),
    (UPDATE_AFTER, 1, "b"),
    (DELETE, 1, "b"),
    (UPDATE_AFTER, 2, "lone"),
    (UPDATE_BEFORE, 3, "lone"),
    (UPDATE_AFTER, 4, "of another key"),
    (UPDATE_BEFORE, 5, None),
)


def rows_of(form: LogFormat, values: pa.LargeBinaryArray) -> list[tuple[str, int, str | None]]:
    found = form.decode(values, ROWS)
    columns = (found.column(name).to_pylist() for name in (ROW_KIND_COLUMN, "id", "name"))
    return list(zip(*columns, strict=True))


def test_a_change_log_keeps_both_images_of_an_update(form: LogFormat) -> None:
    records, rows = form.encode(*MIXED, "all", ["id"], HEADER)
    assert rows.tolist() == [0, 2, 3, 4, 5, 6, 7]
    assert rows_of(form, records.values) == [
        ("+I", 1, "a"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, "b"),
        ("+I", 2, "lone"),
        ("-D", 3, "lone"),
        ("+I", 4, "of another key"),
        ("-D", 5, None),
    ]
    assert records.headers == HEADER
    assert len(records.keys) == len(records.values) == 7


def test_an_upsert_log_keeps_the_newest_row_only(form: LogFormat) -> None:
    records, rows = form.encode(*MIXED, "upsert", ["id"], HEADER)
    assert rows.tolist() == [0, 2, 3, 4, 5, 6, 7], "a lone -U says that its row is gone"
    assert [(kind, key) for kind, key, _ in rows_of(form, records.values)] == [
        ("+I", 1),
        ("+I", 1),
        ("-D", 1),
        ("+I", 2),
        ("-D", 3),
        ("+I", 4),
        ("-D", 5),
    ]


def test_a_table_without_a_key_has_records_without_keys(form: LogFormat) -> None:
    records, _ = form.encode(*changes((INSERT, 1, "a"), (DELETE, 1, "a")), "all", [], HEADER)
    assert records.keys.to_pylist() == [None, None]
    assert [kind for kind, _, _ in rows_of(form, records.values)] == ["+I", "-D"]


def test_an_empty_batch_gives_no_records(form: LogFormat) -> None:
    batch = pa.RecordBatch.from_pydict({"id": [], "name": []}, schema=ROWS)
    records, rows = form.encode(batch, np.zeros(0, np.int8), "all", ["id"], HEADER)
    assert (len(records), len(rows)) == (0, 0)
    assert form.decode(records.values, ROWS).num_rows == 0


def test_only_the_columns_asked_for_are_read(form: LogFormat) -> None:
    records, _ = form.encode(*MIXED, "all", ["id"], HEADER)
    found = form.decode(records.values, pa.schema([ROWS.field("name"), pa.field("later", pa.int32())]))
    assert found.schema.names == ["name", "later", ROW_KIND_COLUMN]
    assert found.column("later").null_count == found.num_rows
    none = form.decode(records.values, pa.schema([]))
    assert none.schema.names == [ROW_KIND_COLUMN]
    assert none.num_rows == 8


@given(st.sampled_from([(INSERT,), (DELETE,), (UPDATE_BEFORE, UPDATE_AFTER)]), TEXT, TEXT)
@pytest.mark.parametrize("name", WRITTEN)
def test_the_inverse_of_the_inverse_is_the_value(name: str, kinds: tuple[int, ...], old: str, new: str) -> None:
    form = ready_format(name)
    rows = [(kind, 1, text) for kind, text in zip(kinds, (old, new), strict=False)]
    records, _ = form.encode(*changes(*rows), "all", ["id"], HEADER)
    (value,) = records.values.to_pylist()
    assert form.inverse(form.inverse(value)) == value
    before, after = form.images(value)
    assert form.images(form.inverse(value)) == (after, before)
    there = rows_of(form, pa.array([value], pa.large_binary()))
    back = rows_of(form, pa.array([form.inverse(value)], pa.large_binary()))
    opposite = {"+I": "-D", "-D": "+I", "-U": "+U", "+U": "-U"}
    assert sorted((opposite[kind], *row) for kind, *row in there) == sorted(back)


def test_an_assertion_makes_a_row_be_there_or_not(form: LogFormat) -> None:
    records, _ = form.encode(*changes((INSERT, 1, "a")), "all", ["id"], HEADER)
    row = form.images(records.values[0].as_py())[1]
    for after, before, kinds in [(row, None, ["+I"]), (None, row, ["-D"]), (row, row, ["-U", "+U"])]:
        value = pa.array([form.asserting(after, before)], pa.large_binary())
        assert rows_of(form, value) == [(kind, 1, "a") for kind in kinds]


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"1", b"null", b'{"op":"x"}', b'{"before":null,"after":null}']
    + [b'{"op":"c","after":5}', b'{"op":"c","after":{"id":"x"}}', b'{"op":"c","after":{"id":99999999999999999999}}'],
)
def test_what_is_no_record_is_corrupt(form: LogFormat, value: bytes) -> None:
    good, _ = form.encode(*changes((INSERT, 1, "a")), "all", ["id"], HEADER)
    with pytest.raises(Corrupt):
        form.decode(pa.concat_arrays([good.values, pa.array([value], pa.large_binary())]), ROWS)


def test_debezium_json_is_as_flink_and_spark_read_it() -> None:
    schema = pa.schema(
        [
            ("d", pa.decimal128(5, 2)),
            ("b", pa.binary()),
            ("day", pa.date32()),
            ("t", pa.timestamp("us")),
            ("z", pa.timestamp("ms", "UTC")),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("f", pa.float64()),
        ]
    )
    row = {
        "d": Decimal("1.50"),
        "b": b"\x00\xff",
        "day": dt.date(2024, 1, 31),
        "t": dt.datetime(2024, 1, 31, 23, 59, 59, 123456),
        "z": dt.datetime(2024, 1, 31, 23, 59, 59, 123000, tzinfo=dt.UTC),
        "m": [("k", 1)],
        "f": float("nan"),
    }
    batch = pa.RecordBatch.from_pylist([row], schema=schema)
    records, _ = log_format("debezium-json").encode(batch, np.zeros(1, np.int8), "all", ["day"], HEADER)
    assert records.keys.to_pylist() == [b'{"day":"2024-01-31"}']
    assert json.loads(records.values[0].as_py()) == {
        "before": None,
        "after": {
            "d": "1.50",
            "b": "AP8=",
            "day": "2024-01-31",
            "t": "2024-01-31 23:59:59.123456",
            "z": "2024-01-31 23:59:59.123Z",
            "m": {"k": 1},
            "f": "NaN",
        },
        "op": "c",
    }


def test_debezium_json_of_others_is_read() -> None:
    """Numbers for decimals, no fraction of a second, spaces and line ends, fields that are not there."""
    schema = pa.schema([("d", pa.decimal128(5, 2)), ("t", pa.timestamp("us")), ("s", pa.string())])
    values = [
        b'{"op":"c","after":{"d":1.5,"t":"2024-01-31 23:59:59"}}',
        b'{\n "before": {"d": "2.25"},\n "after": {"d": 3, "s": "x"},\n "op": "u", "ts_ms": 1\n}',
        b'{"op":"d","before":{"s":"y"},"source":{"db":"x"}}',
    ]
    found = log_format("debezium-json").decode(pa.array(values, pa.large_binary()), schema)
    assert found.column(ROW_KIND_COLUMN).to_pylist() == [
        NAMES[k] for k in (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
    ]
    assert found.column("d").to_pylist() == [Decimal("1.50"), Decimal("2.25"), Decimal("3.00"), None]
    assert found.column("t").to_pylist() == [dt.datetime(2024, 1, 31, 23, 59, 59), None, None, None]
    assert found.column("s").to_pylist() == [None, None, "x", "y"]
