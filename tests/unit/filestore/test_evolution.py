"""Files of every format read with the columns that the table has now, inside nested values too."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.avro_file import write_records
from lakelog.fileformat.parquet import ParquetFormat
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.skipping.predicate import Compare, IsNull
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import BucketFiles, DataFileMeta
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import DataField, parse_field

NONE = b"\x00" * 12
FORMATS = ["parquet", "orc", "avro"]


def row(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]}


def array(element: Any) -> dict[str, Any]:
    return {"type": "ARRAY", "element": element}


def map_of(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "MAP", "key": key, "value": value}


def avro_type(kind: pa.DataType, name: str) -> Any:
    """The Avro type by which the format's writers store an Arrow type."""
    if pa.types.is_struct(kind):
        parts = [{"name": f.name, "type": ["null", avro_type(f.type, f"{name}_{f.name}")]} for f in kind]
        return {"type": "record", "name": name, "fields": parts}
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", avro_type(kind.item_type, f"{name}_value")]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", avro_type(kind.value_type, f"{name}_element")]}
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-millis"}
    whole = {pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.int64(): "long", pa.float64(): "double"}
    return whole.get(kind, "string")


def avro_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: avro_value(value[f.name], f.type) for f in kind}
    if pa.types.is_map(kind):
        return {k: avro_value(v, kind.item_type) for k, v in value}
    if pa.types.is_list(kind):
        return [avro_value(v, kind.value_type) for v in value]
    if pa.types.is_temporal(kind):
        return pa.scalar(value, kind).value
    return value


def write_file(store: FileStore, name: str, rows: pa.Table) -> DataFileMeta:
    path = f"{store.paths.bucket_dir(NONE, 0)}/{name}"
    kind = name.rpartition(".")[2]
    if kind == "parquet":
        ParquetFormat().write(store.io, path, rows.to_batches(), rows.schema)
    elif kind == "orc":
        sink = io.BytesIO()
        orc.write_table(rows, sink)
        store.io.write(path, sink.getvalue())
    else:
        fields = [{"name": f.name, "type": ["null", avro_type(f.type, f.name)]} for f in rows.schema]
        schema = {"type": "record", "name": "rows", "fields": fields}
        kind_of_row = pa.struct(list(rows.schema))
        records = [avro_value(r, kind_of_row) for r in rows.to_pylist()]
        store.io.write(path, write_records(schema, records))
    return DataFileMeta(name, store.io.size(path), rows.num_rows, schema_id=store.schema.id)


def table_of(fields: list[dict[str, Any]], **options: str) -> FileStore:
    schema = TableSchema(0, tuple(parse_field(f) for f in fields), 99, options={"bucket": "-1", **options})
    io_ = MemoryFileIO(new_uuid())
    io_.write("/t/schema/schema-0", schema.to_json())
    return FileStore(io_, "/t", schema)


def changed(store: FileStore, fields: list[dict[str, Any]]) -> FileStore:
    parsed: tuple[DataField, ...] = tuple(parse_field(f) for f in fields)
    schema = TableSchema(store.schema.id + 1, parsed, 99, options=store.schema.options)
    store.io.write(f"/t/schema/schema-{schema.id}", schema.to_json())
    return FileStore(store.io, "/t", schema)


def commit(store: FileStore, *files: DataFileMeta) -> None:
    store.commit(CommitRequest(new_uuid(), 1, "APPEND", (BucketFiles(NONE, 0, -1, new_files=files),)))


def field(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind}


POINT = row((10, "x", "INT"), (11, "y", "STRING"), (12, "gone", "INT"))
OLD = [
    field(0, "id", "INT"),
    field(1, "point", POINT),
    field(2, "points", array(row((20, "x", "INT"), (21, "y", "STRING")))),
    field(3, "named", map_of("STRING NOT NULL", row((30, "x", "INT"), (31, "tags", array("INT"))))),
    field(4, "numbers", array("INT")),
    field(5, "dropped", "STRING"),
    field(6, "alone", row((40, "a", "INT"))),
]
ROWS = [
    {
        "id": 1,
        "point": {"x": 1, "y": "7", "gone": 0},
        "points": [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}],
        "named": [("k", {"x": 5, "tags": [1, 2]}), ("l", None)],
        "numbers": [1, None, 3],
        "dropped": "d",
        "alone": {"a": 1},
    },
    {"id": 2, "point": None, "points": None, "named": None, "numbers": None, "dropped": None, "alone": None},
    {"id": 3, "point": {"x": None, "y": "8", "gone": 1}, "points": [], "named": [], "numbers": [], "dropped": "e",
     "alone": {"a": 2}},
]  # fmt: skip
NEW = [
    field(3, "named", map_of("STRING NOT NULL", row((31, "labels", array("STRING")), (32, "more", "INT")))),
    field(1, "spot", row((13, "z", "DOUBLE"), (11, "y", "BIGINT"), (10, "renamed", "STRING"))),
    field(2, "points", array(row((21, "y", "STRING"), (20, "x", "BIGINT")))),
    field(7, "dropped", "INT"),
    field(4, "numbers", array("DECIMAL(5, 1)")),
    field(0, "id", "INT"),
    field(6, "alone", row((41, "b", "INT"))),
]
EXPECTED = [
    {
        "named": [("k", {"labels": ["1", "2"], "more": None}), ("l", None)],
        "spot": {"z": None, "y": 7, "renamed": "1"},
        "points": [{"y": "a", "x": 1}, None, {"y": "b", "x": None}],
        "dropped": None,
        "numbers": [Decimal("1.0"), None, Decimal("3.0")],
        "id": 1,
        "alone": None,
    },
    {"named": None, "spot": None, "points": None, "dropped": None, "numbers": None, "id": 2, "alone": None},
    {"named": [], "spot": {"z": None, "y": 8, "renamed": None}, "points": [], "dropped": None, "numbers": [], "id": 3,
     "alone": None},
]  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_nested_fields_are_found_by_id(kind) -> None:
    store = table_of(OLD)
    commit(store, write_file(store, f"data-1.{kind}", pa.Table.from_pylist(ROWS, arrow_schema(store.schema.fields))))
    assert store.read_table(store.plan()).to_pylist() == ROWS
    now = changed(store, NEW)
    found = now.read_table(now.plan())
    assert found.schema == arrow_schema(now.schema.fields)
    assert found.to_pylist() == EXPECTED
    assert now.read_table(now.plan(), ["spot"]).to_pylist() == [{"spot": r["spot"]} for r in EXPECTED]
    sliced = [b.slice(1, 2) for s in now.plan() for b in now.read_split(s)]
    assert [r for b in sliced for r in b.to_pylist()] == EXPECTED[1:]


@pytest.mark.parametrize("kind", FORMATS)
def test_small_batches_of_nested_values_read_the_same(kind) -> None:
    store = table_of(OLD)
    meta = write_file(store, f"data-1.{kind}", pa.Table.from_pylist(ROWS * 5, arrow_schema(store.schema.fields)))
    now = changed(store, NEW)
    names = now.schema.field_names
    batches = list(now.files.read(NONE, 0, meta, names, batch_rows=2))
    assert len(batches) > 5
    assert [r for b in batches for r in b.to_pylist()] == EXPECTED * 5


CHANGES = [
    ("INT", 7, "BIGINT", 7),
    ("BIGINT", 2**30 + 1, "INT", 2**30 + 1),
    ("INT", 12, "STRING", "12"),
    ("STRING", "12", "INT", 12),
    ("TINYINT", 3, "DOUBLE", 3.0),
    ("DATE", dt.date(2024, 2, 29), "STRING", "2024-02-29"),
    ("TIMESTAMP(3)", dt.datetime(2024, 2, 29), "DATE", dt.date(2024, 2, 29)),
    ("STRING", "2024-02-29", "DATE", dt.date(2024, 2, 29)),
    ("DOUBLE", 2.5, "DECIMAL(4, 1)", Decimal("2.5")),
]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("old", "value", "new", "expected"), CHANGES)
def test_filters_on_a_retyped_column_see_its_new_values(kind, old, value, new, expected) -> None:
    store = table_of([field(0, "id", "INT"), field(1, "v", old)])
    rows = pa.Table.from_pylist([{"id": 1, "v": value}, {"id": 2, "v": None}], arrow_schema(store.schema.fields))
    commit(store, write_file(store, f"data-1.{kind}", rows))
    now = changed(store, [field(1, "renamed", new), field(0, "id", "INT")])
    for filter, ids in ((Compare("renamed", "=", expected), [1]), (IsNull("renamed"), [2])):
        assert now.read_table(now.plan(filter=filter), ["id"], filter).column("id").to_pylist() == ids
    assert now.read_table(now.plan(), ["renamed"]).column(0).to_pylist() == [expected, None]


def test_one_table_may_have_files_of_all_formats_and_schemas() -> None:
    store = table_of([field(0, "id", "INT"), field(1, "v", "STRING")])
    now = changed(store, [field(1, "v", "INT"), field(0, "id", "INT"), field(2, "added", "DATE")])
    for at, (writer, name) in enumerate(
        ((store, "data-1.zstd.parquet"), (store, "data-2.snappy.orc"), (now, "data-3.avro"), (now, "data-4.parquet"))
    ):
        values = {"id": at, "v": str(at) if writer is store else at}
        rows = pa.Table.from_pylist([values], arrow_schema(writer.schema.fields))
        commit(writer, write_file(writer, name, rows))
    found = now.read_table(now.plan())
    assert found.to_pylist() == [{"v": at, "id": at, "added": None} for at in range(4)]


def test_another_key_type_of_a_map_is_refused() -> None:
    store = table_of([field(0, "m", map_of("INT NOT NULL", "INT"))])
    rows = pa.Table.from_pylist([{"m": [(1, 1)]}], arrow_schema(store.schema.fields))
    commit(store, write_file(store, "data-1.parquet", rows))
    now = changed(store, [field(0, "m", map_of("BIGINT NOT NULL", "INT"))])
    with pytest.raises(UnsupportedFeature, match="key type"):
        now.read_table(now.plan())
