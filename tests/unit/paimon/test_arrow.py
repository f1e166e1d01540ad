from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.schema.schema import TableSchema, file_fields, new_schema
from lakelog.paimon.types.arrow import arrow_schema, arrow_type, fields_from_arrow, file_schema
from lakelog.paimon.types.types import parse_type

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
TABLE = GOLDEN / "types_parquet" / "g.db" / "types_parquet"


def parts(field: pa.Field) -> Iterator[tuple[str, bool, str]]:
    """(name, nullable, field id) of a column and of all that is inside it."""
    yield field.name, field.nullable, (field.metadata or {})[b"PARQUET:field_id"].decode()
    kind = field.type
    if pa.types.is_map(kind):
        yield from (*parts(kind.key_field), *parts(kind.item_field))
    elif pa.types.is_nested(kind):
        yield from (p for i in range(kind.num_fields) for p in parts(kind.field(i)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("TINYINT", pa.int8()),
        ("STRING", pa.string()),
        ("CHAR(3)", pa.string()),
        ("BYTES", pa.binary()),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("DATE", pa.date32()),
        ("TIME(0)", pa.time32("ms")),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(4)", pa.timestamp("us")),
        ("TIMESTAMP(9)", pa.timestamp("ns")),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", tz="UTC")),
    ],
)
def test_an_atomic_type_has_one_arrow_type(text: str, wanted: pa.DataType) -> None:
    assert arrow_type(parse_type(text)) == wanted


def test_nullability_is_kept_at_every_depth() -> None:
    kind = parse_type({"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "INT NOT NULL"}})
    found = arrow_type(kind)
    assert found.key_field.nullable is False
    assert found.item_field.nullable is True
    assert found.item_type.value_field.nullable is False
    assert found.item_type.value_field.name == "element"
    bag = arrow_type(parse_type({"type": "MULTISET", "element": "STRING"}))
    assert (bag.key_type, bag.item_type, bag.item_field.nullable) == (pa.string(), pa.int32(), False)


def test_columns_of_files_have_the_names_types_and_ids_that_paimon_writes() -> None:
    schema = TableSchema.from_json((TABLE / "schema" / "schema-0").read_bytes())
    path = next(TABLE.glob("bucket-0/*.parquet"))
    ours, theirs = file_schema(file_fields(schema)), pq.ParquetFile(path).schema_arrow
    assert ours == theirs
    assert [p for f in ours for p in parts(f)] == [p for f in theirs for p in parts(f)]
    assert arrow_schema(schema.fields).metadata is None


def test_a_table_without_primary_key_has_its_own_columns_only_in_files() -> None:
    schema = new_schema([("a", parse_type("INT"), None)])
    assert file_fields(schema) == schema.fields


def test_columns_of_arrow_become_columns_of_a_table_and_come_back() -> None:
    path = TABLE / "schema" / "schema-0"
    known = json.loads(path.read_bytes())
    schema = arrow_schema(TableSchema.from_json(path.read_bytes()).fields)
    assert arrow_schema(new_schema(fields_from_arrow(schema)).fields) == schema
    assert len(schema) == len(known["fields"])


def test_other_arrow_types_become_the_narrowest_that_holds_them() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.uint32(), nullable=False),
            pa.field("b", pa.dictionary(pa.int32(), pa.large_string()), metadata={"comment": "said of b"}),
            ("c", pa.binary(4)),
            ("d", pa.timestamp("s", tz="Asia/Tokyo")),
            ("e", pa.large_list(pa.uint8())),
        ]
    )
    found = [(name, kind.to_json(), comment) for name, kind, comment in fields_from_arrow(schema)]
    assert found == [
        ("a", "BIGINT NOT NULL", None),
        ("b", "STRING", "said of b"),
        ("c", "BINARY(4)", None),
        ("d", "TIMESTAMP(0) WITH LOCAL TIME ZONE", None),
        ("e", {"type": "ARRAY", "element": "SMALLINT"}, None),
    ]


def test_types_that_cannot_be_stored_are_refused() -> None:
    for kind in (pa.uint64(), pa.duration("s"), pa.time64("us"), pa.decimal128(5, -2)):
        with pytest.raises(UnsupportedFeature, match="cast it"):
            fields_from_arrow(pa.schema([("a", kind)]))
    vector = {"type": "VECTOR", "element": "FLOAT", "length": 3}
    for name, kind in (("BLOB", "BLOB"), ("VECTOR", vector)):
        with pytest.raises(UnsupportedFeature, match=name):
            arrow_type(parse_type(kind))
