"""PostgreSQL's texts as Arrow values, positions as texts, and values that a message lacks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, InvalidSchema
from lakelog.service.ingest.column_types import TypeInfo, array_elements, arrow_type_of, from_text, widens
from lakelog.service.ingest.pgoutput import UNCHANGED
from lakelog.service.ingest.position import Position, lsn_text, parse_lsn
from lakelog.service.ingest.rows import MissingValue, RowBuffer

TEXT = TypeInfo("b", 0, -1, 0)
COLUMNS = (("id", pa.int32()), ("v", pa.string()), ("big", pa.string()))


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL",NULL,""}', ["NULL", None, ""]),
        ('{"a,b","q\\"x","back\\\\slash","{}"," s"}', ["a,b", 'q"x', "back\\slash", "{}", " s"]),
        ("[0:1]={7,8}", ["7", "8"]),
    ],
)
def test_arrays(text, elements) -> None:
    assert array_elements(text) == elements


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", '{{"a","b"}}'])
def test_an_array_of_several_dimensions_is_refused(text) -> None:
    with pytest.raises(InvalidSchema, match="column 'a' has the value"):
        from_text(pa.array([text]), pa.list_(pa.string()), "a")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.date32(), "infinity"),
        (pa.timestamp("us"), "-infinity"),
        (pa.decimal128(5, 2), "NaN"),
        (pa.time32("ms"), "24:00:00"),
    ],
)
def test_a_value_that_does_not_fit_is_named(kind, text) -> None:
    with pytest.raises(InvalidSchema, match=f"column 'c' has the value '{text}'"):
        from_text(pa.array([None, text]), kind, "c")


@pytest.mark.parametrize(
    ("precision", "scale", "kind"),
    [(10, 2, pa.decimal128(10, 2)), (38, 0, pa.decimal128(38, 0)), (39, 0, pa.string()), (5, -2, pa.string())],
)
def test_numeric(precision, scale, kind) -> None:
    modifier = (precision << 16 | scale & 0x7FF) + 4
    assert arrow_type_of(1700, modifier, lambda _: TEXT) == kind
    assert arrow_type_of(1700, -1, lambda _: TEXT) == pa.string()


def test_domains_and_arrays_have_the_type_of_their_parts() -> None:
    catalog = {50_000: TypeInfo("d", 1700, (7 << 16 | 3) + 4, 0), 50_001: TypeInfo("b", 0, -1, 50_000)}
    assert arrow_type_of(50_000, -1, catalog.__getitem__) == pa.decimal128(7, 3)
    assert arrow_type_of(50_001, -1, catalog.__getitem__) == pa.list_(pa.decimal128(7, 3))


def test_only_types_with_all_former_values_are_wider() -> None:
    assert widens(pa.int16(), pa.int64()) and not widens(pa.int64(), pa.int32())
    assert widens(pa.decimal128(5, 2), pa.decimal128(7, 3)) and not widens(pa.decimal128(5, 2), pa.decimal128(6, 4))
    assert widens(pa.float32(), pa.float64()) and not widens(pa.string(), pa.int32())


def test_positions() -> None:
    for text in ("0/16B3748", "1A/0", "0/5+17"):
        assert str(Position.parse(text)) == text
    assert Position.parse("") is None and Position.parse("copy") is None
    assert lsn_text(parse_lsn("FFFFFFFF/FFFFFFFF")) == "FFFFFFFF/FFFFFFFF"
    with pytest.raises(Corrupt, match="not a position"):
        Position.parse("nonsense")
    middle = Position(100, 3)
    assert middle.has(99, 9) and middle.has(100, 2) and not middle.has(100, 3) and not middle.has(101, 0)


def stored(keys):
    return pa.table({"id": pa.array([7], pa.int32()), "v": ["old"], "big": ["stored"]})


def test_lacking_values_come_from_the_newest_row_of_the_key() -> None:
    buffer = RowBuffer(COLUMNS, [0], keeps=True)
    buffer.add("+I", [b"1", b"a", b"first"])
    assert buffer.take(stored).num_rows == 1
    buffer.add("+U", [b"1", b"b", UNCHANGED])  # of the batch before
    buffer.add("+U", [b"7", b"c", UNCHANGED])  # of the table
    buffer.add("+U", [b"7", b"d", UNCHANGED])  # of the row above
    buffer.add("+U", [b"1", b"e", b"second"])
    buffer.add("-D", [b"1", None, None])
    buffer.add("+I", [b"2", b"f", UNCHANGED], before=[b"1", None, None])  # under the former key
    made = buffer.take(stored)
    assert made.column("big").to_pylist() == ["first", "stored", "stored", "second", None, "second"]


def test_a_lacking_value_that_is_nowhere_is_not_null() -> None:
    buffer = RowBuffer(COLUMNS, [0], keeps=True)
    buffer.add("+U", [b"8", b"b", UNCHANGED])
    with pytest.raises(MissingValue):
        buffer.take(stored)
