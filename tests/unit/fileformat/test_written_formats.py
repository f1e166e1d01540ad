"""Every type, nested ones too, written and read back in every format; sizes, field ids, refusals."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from lakelog.errors import InvalidRequest, NotInstalled, UnsupportedFeature
from lakelog.fileformat import FILE_FORMATS
from lakelog.fileformat.avro_file import read_records, read_schema
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.types.arrow import arrow_schema, file_schema
from lakelog.paimon.types.types import INT, DataField, parse_type

NESTED = {
    "tags": {"type": "ARRAY", "element": "STRING"},
    "deep": {"type": "ARRAY", "element": {"type": "ARRAY", "element": "DECIMAL(5, 1)"}},
    "named": {"type": "MAP", "key": "STRING", "value": "TIMESTAMP(3)"},
    "numbered": {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": "DATE"}},
    "bag": {"type": "MULTISET", "element": "STRING"},
    "row": {
        "type": "ROW",
        "fields": [
            {"id": 30, "name": "a", "type": "INT"},
            {"id": 31, "name": "b", "type": {"type": "ROW", "fields": [{"id": 32, "name": "c", "type": "TIME(3)"}]}},
        ],
    },
}
PLAIN = {
    "b": "BOOLEAN", "t": "TINYINT", "s": "SMALLINT", "i": "INT NOT NULL", "l": "BIGINT", "f": "FLOAT", "d": "DOUBLE",
    "c": "CHAR(3)", "v": "VARCHAR(9)", "bin": "BYTES", "small": "DECIMAL(9, 2)", "big": "DECIMAL(38, 10)",
    "day": "DATE", "time": "TIME(3)", "ms": "TIMESTAMP(3)", "us": "TIMESTAMP(6)",
    "zone": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}  # fmt: skip
FIELDS = tuple(DataField(at, name, parse_type(kind)) for at, (name, kind) in enumerate({**PLAIN, **NESTED}.items()))
UTC = dt.UTC
ROWS = [
    {
        "b": True, "t": -128, "s": 32767, "i": 1, "l": -(2**63), "f": 1.5, "d": float("-inf"), "c": "ab", "v": "é日",
        "bin": b"\x00\xff", "small": Decimal("-1234567.89"),
        "big": Decimal("-1234567890123456789012345678.0123456789"),
        "day": dt.date(1582, 10, 15), "time": dt.time(23, 59, 59, 999000),
        "ms": dt.datetime(2024, 2, 29, 1, 2, 3, 4000),
        "us": dt.datetime(2024, 2, 29, 1, 2, 3, 456789), "zone": dt.datetime(1969, 12, 31, 23, 0, tzinfo=UTC),
        "tags": ["a", None, ""], "deep": [[Decimal("1.5"), None], [], None],
        "named": [("x", dt.datetime(2000, 1, 1)), ("y", None)], "numbered": [(1, [dt.date(2024, 1, 1)]), (-2, None)],
        "bag": [("a", 2)], "row": {"a": 7, "b": {"c": dt.time(1, 2, 3)}},
    },
    {"i": 2, "tags": [], "deep": [], "named": [], "numbered": [], "bag": [], "row": {"a": None, "b": None}},
    {"i": 3, "small": Decimal("0.00"), "big": Decimal("128"), "row": None, "l": 2**63 - 1, "c": "", "bin": b""},
]  # fmt: skip


def table() -> pa.Table:
    return pa.Table.from_pylist(ROWS, arrow_schema(FIELDS))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_every_type_comes_back_as_it_was(name: str, compression: str) -> None:
    io, format_ = MemoryFileIO(new_uuid()), FILE_FORMATS.create(name)
    path = f"/t/data.{name}"
    # a slice, so that offsets inside of the arrays count
    rows = pa.concat_tables([table(), table()]).combine_chunks().slice(2, 4)
    size = format_.write(io, path, rows.to_batches(max_chunksize=3), file_schema(FIELDS), compression)
    assert size == io.size(path)
    assert format_.file_columns(io, path) == [f.name for f in FIELDS]
    found = pa.Table.from_batches(list(format_.read(io, path, fields=FIELDS)))
    assert found.schema.types == rows.schema.types
    assert found.to_pylist() == rows.to_pylist()
    few = pa.Table.from_batches(list(format_.read(io, path, ["row", "i"], fields=FIELDS)))
    assert few.column_names == ["row", "i"] and few.column("i").to_pylist() == [3, 1, 2, 3]


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_a_file_that_cannot_be_written_leaves_nothing(name: str) -> None:
    io, format_ = MemoryFileIO(new_uuid()), FILE_FORMATS.create(name)

    def failing():
        yield from table().to_batches()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        format_.write(io, "/t/x", failing(), file_schema(FIELDS))
    assert not io.exists("/t/x")


def test_orc_has_the_field_ids_as_attributes() -> None:
    io = MemoryFileIO(new_uuid())
    FILE_FORMATS.create("orc").write(io, "/t/a", table().to_batches(), file_schema(FIELDS))
    schema = orc.ORCFile(io.open_input("/t/a")).schema
    assert schema.field("t").metadata == {b"paimon.id": b"1"}
    inner = schema.field("row").type.field("b")
    assert inner.metadata == {b"paimon.id": b"31"} and inner.type.field("c").metadata == {b"paimon.id": b"32"}


def test_avro_has_the_schema_that_other_readers_know() -> None:
    io = MemoryFileIO(new_uuid())
    FILE_FORMATS.create("avro").write(io, "/t/a", table().to_batches(), file_schema(FIELDS))
    data = io.read("/t/a")
    schema, records = read_schema(data), read_records(data)
    kinds = {f["name"]: f["type"] for f in schema["fields"]}
    assert schema["name"].rpartition(".")[2] == "record" and len(records) == 3
    assert kinds["i"] == "int" and kinds["t"] == ["null", "int"]
    assert kinds["us"][1] == {"type": "long", "logicalType": "timestamp-micros"}
    assert kinds["zone"][1] == {"type": "long", "logicalType": "local-timestamp-micros"}
    assert kinds["time"][1] == {"type": "int", "logicalType": "time-millis"}
    assert kinds["named"][1]["type"] == "map" and kinds["numbered"][1]["logicalType"] == "map"
    assert kinds["numbered"][1]["items"]["fields"][0]["type"] == "int"


@pytest.mark.parametrize(
    ("name", "kind", "value", "compression", "what"),
    [
        ("avro", "TIMESTAMP(9)", dt.datetime(2024, 1, 1), "zstd", "at most 6 digits"),
        ("avro", "INT", 1, "lz4", "'lz4' does not go with .* 'avro'"),
        ("orc", "INT", 1, "brotli", "'brotli' does not go with .* 'orc'"),
        ("orc", "TIMESTAMP(3)", dt.datetime(1969, 12, 31, 23, 59, 59, 1000), "zstd", "before 1970 with a fraction"),
        ("orc", "TIMESTAMP(6)", dt.datetime(9999, 12, 31), "zstd", "outside of 1677-09-22 to 2262-04-11"),
        ("orc", "TIMESTAMP(3) WITH LOCAL TIME ZONE", dt.datetime(1582, 10, 15), "zstd", "outside of 1677-09-22"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(name: str, kind: str, value: object, compression: str, what: str) -> None:
    fields = (DataField(0, "a", parse_type(kind)),)
    rows = pa.Table.from_pylist([{"a": value}, {"a": None}], arrow_schema(fields))
    with pytest.raises(InvalidRequest, match=what):
        FILE_FORMATS.create(name).write(
            MemoryFileIO(new_uuid()), "/t/a", rows.to_batches(), file_schema(fields), compression
        )


def test_orc_times_that_arrow_rejects_are_read() -> None:
    """Files of Apache Paimon may have them, in any column and beside any other."""
    io, time, zoned = MemoryFileIO(new_uuid()), pa.timestamp("us"), pa.timestamp("us", "UTC")
    nested = pa.list_(pa.struct([("t", time), ("m", pa.map_(time, pa.int32()))]))
    rows = pa.table(
        {
            "i": pa.array([7, None, 9], pa.int32()),
            "a": pa.array([dt.datetime(1582, 10, 15), None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], time),
            "z": pa.array([None, dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1)], zoned),
            "n": pa.array([[{"t": None, "m": [(dt.datetime(2263, 1, 1), 3)]}], None, []], nested),
            "s": pa.array([dt.datetime(1582, 10, 15), None, dt.datetime(2000, 1, 1)], time),
        }
    )
    with io.open_output("/t/a") as sink:
        orc.write_table(rows, sink)
    kinds = {"i": "INT", "a": "TIMESTAMP(6)", "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "s": "TIMESTAMP(3)"}
    fields = tuple(DataField(n, name, parse_type(kind)) for n, (name, kind) in enumerate(kinds.items()))
    file = FILE_FORMATS.create("orc")
    read = pa.Table.from_batches(file.read(io, "/t/a", fields=fields))
    assert read.drop_columns(["z", "s"]).to_pylist() == rows.drop_columns(["z", "s"]).to_pylist()
    assert read.schema.types[:3] == rows.schema.types[:3] and read.schema.field("s").type == pa.timestamp("ms")
    assert read["z"].cast(pa.int64()).to_pylist() == rows["z"].cast(pa.int64()).to_pylist()
    assert read["s"].to_pylist() == rows["s"].to_pylist()
    late = pc.field("a") > pa.scalar(dt.datetime(5000, 1, 1), time)
    assert [b.to_pylist() for b in file.read(io, "/t/a", ["i"], filter=late, fields=fields)] == [[{"i": 9}]]
    nine = (DataField(1, "a", parse_type("TIMESTAMP(9)")),)
    with pytest.raises(UnsupportedFeature, match="does not fit into a column of nanoseconds"):
        list(file.read(io, "/t/a", ["a"], fields=nine))


def test_orc_times_that_arrow_rejects_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    io, fields = MemoryFileIO(new_uuid()), (DataField(0, "a", parse_type("TIMESTAMP(6)")), DataField(1, "i", INT))
    rows = pa.table({"a": pa.array([dt.datetime(1582, 10, 15)], pa.timestamp("us")), "i": pa.array([7], pa.int32())})
    with io.open_output("/t/a") as sink:
        orc.write_table(rows, sink)
    file = FILE_FORMATS.create("orc")
    monkeypatch.delitem(sys.modules, "lakelog.fileformat.orc_times", raising=False)
    monkeypatch.setitem(sys.modules, "pyorc", None)
    with pytest.raises(NotInstalled, match=r"outside of 1677-09-22 to 2262-04-11' needs: pip install 'lakelog\[orc\]'"):
        list(file.read(io, "/t/a", fields=fields))
    assert [b.to_pylist() for b in file.read(io, "/t/a", ["i"], fields=fields[1:])] == [[{"i": 7}]]


def test_orc_times_are_judged_in_nested_columns() -> None:
    time = pa.timestamp("us")
    for kind, value in (
        (pa.list_(pa.struct([("t", time)])), [{"t": dt.datetime(2263, 1, 1)}]),
        (pa.map_(pa.int32(), time), [(1, dt.datetime(1677, 9, 21))]),
        (pa.map_(time, pa.int32()), [(dt.datetime(1969, 12, 31, 23, 59, 59, 1), 1)]),
    ):
        rows = pa.table({"a": pa.array([value, None], kind)})
        with pytest.raises(UnsupportedFeature, match="column 'a' has a time"):
            FILE_FORMATS.create("orc").write(MemoryFileIO(new_uuid()), "/t/a", rows.to_batches(), rows.schema)


@pytest.mark.parametrize("year", [1677, 1678, 1970, 2261, 2262])
def test_orc_times_at_the_limits_of_the_format(year: int) -> None:
    io, fields = MemoryFileIO(new_uuid()), (DataField(0, "a", parse_type("TIMESTAMP(6)")),)
    rows = pa.Table.from_pylist([{"a": dt.datetime(year, 9 if year == 1677 else 4, 22 if year == 1677 else 11)}])
    rows = rows.cast(arrow_schema(fields))
    file = FILE_FORMATS.create("orc")
    file.write(io, "/t/a", rows.to_batches(), file_schema(fields), "zstd")
    assert pa.Table.from_batches(file.read(io, "/t/a", fields=fields)).column("a").to_pylist() == rows["a"].to_pylist()
