"""Data files of every format, read with the types of the table, hold what Paimon says that they hold."""

from __future__ import annotations

import json
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat import format_of
from lakelog.fileformat.base import with_types
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
FORMATS = ["parquet", "orc", "avro"]


def table(kind: str) -> tuple[TableSchema, list[Path]]:
    root = GOLDEN / f"types_{kind}" / "g.db" / f"types_{kind}"
    return TableSchema.from_json((root / "schema" / "schema-0").read_bytes()), sorted(root.glob("bucket-0/data-*"))


def expected_rows(kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (GOLDEN / f"types_{kind}.expected.jsonl").read_text().splitlines()]
    return [line["row"] for line in lines if line["view"] == "scan" and "row" in line]


def value(said: Any, kind: DataType) -> Any:
    """What Paimon printed, as Arrow gives it; timestamps as whole numbers."""
    if said is None:
        return None
    if isinstance(kind, ArrayType):
        return [value(v, kind.element) for v in said]
    if isinstance(kind, MapType):
        return [(value(k, kind.key), value(v, kind.value)) for k, v in said]
    if isinstance(kind, RowType):
        return {f.name: value(said[f.name], f.type) for f in kind.fields}
    assert isinstance(kind, AtomicType)
    if kind.root in ("BINARY", "VARBINARY"):
        return bytes.fromhex(said[2:])
    if kind.root.startswith("TIMESTAMP"):
        unit = "ms" if (kind.precision or 0) <= 3 else "us" if (kind.precision or 0) <= 6 else "ns"
        return int(np.datetime64(said.rstrip("Z"), unit).astype(np.int64))
    if kind.root == "FLOAT":
        return float(np.float32(said))
    convert = {"DECIMAL": Decimal, "DATE": date.fromisoformat, "TIME": time.fromisoformat, "DOUBLE": float}
    return convert.get(kind.root, lambda v: v)(said)


def found_values(column: pa.ChunkedArray) -> list[Any]:
    whole = pa.types.is_timestamp(column.type)
    return list((column.cast(pa.int64()) if whole else column).to_pylist())


@pytest.mark.parametrize("kind", FORMATS)
def test_every_type_is_read_as_paimon_reads_it(kind: str) -> None:
    schema, paths = table(kind)
    io = LocalFileIO()
    names = list(schema.field_names)
    batches = [b for p in paths for b in format_of(p.name).read(io, str(p), names, fields=schema.fields)]
    read = pa.Table.from_batches(batches).sort_by("id")
    assert [f.type for f in read.schema] == [f.type for f in arrow_schema(schema.fields)]
    expected = sorted(expected_rows(kind), key=lambda row: row["id"])
    assert read.num_rows == len(expected) == 3
    for field in schema.fields:
        wanted = [value(row[field.name], field.type) for row in expected]
        assert repr(found_values(read.column(field.name))) == repr(wanted), field.name


@pytest.mark.parametrize("kind", FORMATS)
def test_columns_and_filters_work_in_every_format(kind: str) -> None:
    schema, paths = table(kind)
    io = LocalFileIO()
    found = []
    for path in paths:
        form = format_of(path.name)
        assert form.file_columns(io, str(path))[:4] == ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "id"]
        read = form.read(io, str(path), ["s", "_SEQUENCE_NUMBER"], filter=pc.field("id") > 1, fields=schema.fields)
        for batch in read:
            assert batch.schema.names == ["s", "_SEQUENCE_NUMBER"]
            found += batch.to_pylist()
        with pytest.raises(Corrupt, match="'nothing'"):
            list(form.read(io, str(path), ["nothing"]))
    assert sorted(row["s"] or "" for row in found) == ["", ""]


@pytest.mark.parametrize("kind", FORMATS)
def test_batches_are_not_larger_than_asked_for(kind: str) -> None:
    _, paths = table(kind)
    sizes = [b.num_rows for p in paths for b in format_of(p.name).read(LocalFileIO(), str(p), batch_rows=1)]
    assert sizes == [1, 1, 1]
    counted = [b for p in paths for b in format_of(p.name).read(LocalFileIO(), str(p), [])]
    assert [b.num_columns for b in counted] == [0] * len(counted)
    assert sum(b.num_rows for b in counted) == 3


@pytest.mark.parametrize("kind", FORMATS)
def test_bytes_of_another_format_are_corrupt(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(b"this is text, and not a data file of any format")
    with pytest.raises(Corrupt):
        format_of(path.name).file_columns(LocalFileIO(), str(path))
    with pytest.raises(Corrupt):
        list(format_of(path.name).read(LocalFileIO(), str(path)))


def test_an_unknown_extension_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="parquet, orc, avro"):
        format_of("data-1.lance")


def test_blanks_are_taken_from_char_only() -> None:
    batch = pa.record_batch({"a": ["x  "], "b": ["x  "]})
    fields = [DataField(0, "a", AtomicType("CHAR", length=3)), DataField(1, "b", AtomicType("VARCHAR", length=3))]
    assert with_types(batch, fields, blank_padded=True).to_pylist() == [{"a": "x", "b": "x  "}]
