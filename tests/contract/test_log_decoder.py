"""What every log format reads, whoever writes it: kinds of changes, columns by name, and nothing that is bent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.record_format import MALFORMED
from lakelog.logstore.formats import LOG_FORMATS
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from ready_formats import ready_format
from records_of_formats import JSON, Given, inserted, records

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))])
OLD: dict[str, Any] = {"id": 1, "name": "ant", "price": Decimal("1.50")}
NEW: dict[str, Any] = {"id": 1, "name": "ANT", "price": Decimal("1.50")}
ALL = sorted(LOG_FORMATS)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what JSON has for its values."""
    return {name: float(value) if isinstance(value, Decimal) else value for name, value in row.items()}


def encoded(name: str, *changes: Given) -> pa.LargeBinaryArray:
    if name in JSON:
        changes = tuple(Given(*(None if row is None else plain(dict(row)) for row in change)) for change in changes)
    return pa.array(records(name, changes, ROWS), pa.large_binary())


def rows(name: str, values: pa.LargeBinaryArray, schema: pa.Schema = ROWS) -> list[tuple[Any, ...]]:
    found = ready_format(name).decode(values, schema)
    found.validate(full=True)
    return [tuple(row.values()) for row in found.select([ROW_KIND_COLUMN, *schema.names]).to_pylist()]


@pytest.mark.parametrize("name", ALL)
def test_changes_are_rows_with_their_kinds_in_the_order_of_the_records(name: str) -> None:
    found = rows(name, encoded(name, inserted(**OLD), Given(OLD, NEW), Given(NEW, None), inserted(**OLD)))
    assert [(row[0], row[1]) for row in found if row[0] != "-U"] in (
        [("+I", 1), ("+U", 1), ("-D", 1), ("+I", 1)],
        [("+I", 1), ("+I", 1), ("-D", 1), ("+I", 1)],  # a system without changes says only what a row is now
    )
    assert found[0] == found[-1] == ("+I", 1, "ant", Decimal("1.50"))
    assert [row for row in found if row[0] == "-U"] in ([("-U", 1, "ant", Decimal("1.50"))], [])


@pytest.mark.parametrize("name", ALL)
def test_a_column_without_a_field_is_null_and_is_named_as_lacking(name: str) -> None:
    values = encoded(name, inserted(id=1, name="ant"), inserted(**OLD))
    assert [row[-1] for row in rows(name, values)] == [None, Decimal("1.50")]
    assert ready_format(name).lacking(values, ROWS.names) == [{"price"}, frozenset()]
    assert ready_format(name).lacking(encoded(name, Given(OLD, None)), ROWS.names) in (
        [frozenset()],
        [{"name", "price"}],
    )


@pytest.mark.parametrize("name", ALL)
def test_only_the_columns_asked_for_are_read(name: str) -> None:
    values = encoded(name, inserted(**OLD), Given(OLD, None))
    assert rows(name, values, pa.schema([ROWS.field("id")])) == [("+I", 1), ("-D", 1)]
    assert rows(name, values, pa.schema([])) == [("+I",), ("-D",)]
    assert rows(name, pa.array([], pa.large_binary())) == []
    assert ready_format(name).row_counts(values).tolist() == [1, 1]


@pytest.mark.parametrize("name", ALL)
def test_bytes_of_another_form_are_a_bad_record_and_hide_no_other(name: str) -> None:
    good = encoded(name, inserted(**OLD))
    for bad in (b"", b"{", b"[]", b"1", b"null", b'"x"', b"\xff\xfe", b"-", b"--{}", b"[" * 3_000, b'{"a":' * 3_000):
        with pytest.raises(MALFORMED):
            ready_format(name).decode(pa.concat_arrays([good, pa.array([bad], pa.large_binary())]), ROWS)
        assert ready_format(name).lacking(pa.array([bad], pa.large_binary()), ROWS.names) == [frozenset()]


@pytest.mark.parametrize("name", sorted(JSON))
@pytest.mark.parametrize("field", ["NAME", "Name"])
def test_names_of_json_match_regardless_of_case_and_the_exact_one_comes_first(name: str, field: str) -> None:
    values = encoded(name, inserted(**{"id": 1, field: "ant"}), Given({"id": 1, field: None}, {"id": 1, field: "bee"}))
    assert [row[2] for row in rows(name, values) if row[0] != "-U"] == ["ant", "bee"]
    assert [row[2] for row in rows(name, values) if row[0] == "-U"] in ([None], [])
    assert ready_format(name).lacking(values, ["id", "name"]) == [frozenset()] * 2
    both = encoded(name, inserted(id=1, **{field: "other", "name": "ant"}))
    assert [row[2] for row in rows(name, both)] == ["ant"]


@pytest.mark.parametrize("name", sorted(JSON))
def test_json_that_says_two_things_or_is_no_text_is_a_bad_record(name: str) -> None:
    (good,) = encoded(name, inserted(**OLD)).to_pylist()
    for old, new in (
        (b'"name":"ant"', b'"name":"ant","name":"bee"'),
        (b'"ant"', b'"\xff"'),
        (b'"ant"', b'"\xed\xa0\x80"'),
        (b'"ant"', b'"\\ud800"'),
        (b'"ant"', b"NaN"),
        (b'"name"', b'"\xc3"'),
        (b'"price":', b'"price":1e999,"x":'),
        (b'"price":', b'"price":"1e-999","x":'),
        (b'"price":', b'"price":"12.345","x":'),
        (b'"id":', b'"id":"9223372036854775808","x":'),
        (b'"id":', b'"id":1.5,"x":'),
        (b'"id":', b'"id":{"a":1},"x":'),
    ):
        assert old in good
        with pytest.raises(MALFORMED):
            rows(name, pa.array([good, good.replace(old, new)], pa.large_binary()))


@pytest.mark.parametrize("name", sorted(JSON))
def test_numbers_of_json_keep_their_digits_beside_any_others(name: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("exact", pa.decimal128(38, 19)), ("m", pa.map_(pa.string(), pa.int32()))])
    for part in (schema, pa.schema([schema.field(0), schema.field(1)])):
        for text in ("0.1234567890123456789", "1234567890123456789.1", "99999999999999999"):
            (good,) = encoded(name, inserted(id=1, exact=1, other=1.5)).to_pylist()
            for number in ("7", '"7"'):
                value = good
                for old, new in (
                    (b'"id":1', number),
                    (b'"id":"1"', number),
                    (b'"exact":"1"', text),
                    (b'"exact":1', text),
                ):
                    value = value.replace(old + b",", old[: old.index(b":") + 1] + new.encode() + b",", 1)
                assert rows(name, pa.array([value], pa.large_binary()), part)[0][1:3] == (7, Decimal(text))


@pytest.mark.parametrize("name", [name for name in ALL if not LOG_FORMATS.load(name).is_written])
def test_what_another_system_writes_lakelog_does_not_write(name: str) -> None:
    form = ready_format(name)
    for use in (form.inverse, form.images, lambda value: form.asserting(value, None)):
        with pytest.raises(Exception, match="written by another system only"):
            use(b"{}")


def test_a_bad_record_is_named_as_corrupt() -> None:
    for name in sorted(JSON):
        with pytest.raises(Corrupt):
            rows(name, pa.array([b'{"type":"TRUNCATE","op":"t","id":[]}'], pa.large_binary()))
