from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakelog.errors import Corrupt, NotFound, UnsupportedFeature
from lakelog.fileformat.parquet import ParquetFormat
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.schema import TableSchema, file_fields
from lakelog.paimon.types.arrow import file_schema
from lakelog.paimon.types.types import BIGINT, STRING, ArrayType, DataField, DataType, MapType, RowType, parse_type

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
TABLE = GOLDEN / "types_parquet" / "g.db" / "types_parquet"
SCHEMA = file_schema([DataField(0, "id", BIGINT.with_nullable(False)), DataField(1, "name", STRING)])
FORMAT = ParquetFormat()


@pytest.fixture
def io() -> MemoryFileIO:
    return MemoryFileIO("parquet-tests")


def rows(start: int, count: int) -> pa.RecordBatch:
    ids = range(start, start + count)
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})


def physical(schema: pq.ParquetSchema) -> list[str]:
    """The columns of a Parquet file, without the name of the message and what a map's group is called."""
    lines = str(schema).splitlines()[2:]
    return [re.sub(r"key_value \(Map\)", "key_value", line) for line in lines if line.strip()]


def test_a_file_has_the_physical_types_and_ids_of_a_file_of_paimon(tmp_path: Path) -> None:
    path = next(TABLE.glob("bucket-0/*.parquet"))
    schema = TableSchema.from_json((TABLE / "schema" / "schema-0").read_bytes())
    fields = [f for f in file_fields(schema) if f.name != "t9"]
    batches = FORMAT.read(LocalFileIO(), str(path), [f.name for f in fields])
    FORMAT.write(LocalFileIO(), f"{tmp_path}/ours.parquet", batches, file_schema(fields))
    ours, theirs = pq.ParquetFile(tmp_path / "ours.parquet"), pq.ParquetFile(path)
    assert physical(ours.schema) == [line for line in physical(theirs.schema) if " t9;" not in line]
    assert ours.metadata.row_group(0).column(0).compression == "ZSTD"
    assert ours.read().equals(theirs.read().drop_columns(["t9"]))
    assert ours.metadata.metadata is None


def test_nanoseconds_are_int96_and_only_without_coarser_timestamps(tmp_path: Path) -> None:
    fine = file_schema([DataField(0, "t", parse_type("TIMESTAMP(9)"))])
    batch = pa.RecordBatch.from_arrays([pa.array([1, None], pa.timestamp("ns"))], ["t"])
    FORMAT.write(LocalFileIO(), f"{tmp_path}/a.parquet", [batch], fine)
    assert "int96" in str(pq.ParquetFile(tmp_path / "a.parquet").schema)
    (found,) = FORMAT.read(LocalFileIO(), f"{tmp_path}/a.parquet")
    assert found.column(0).equals(batch.column(0))
    both = file_schema([DataField(0, "t", parse_type("TIMESTAMP(9)")), DataField(1, "u", parse_type("TIMESTAMP(3)"))])
    with pytest.raises(UnsupportedFeature, match="INT96"):
        FORMAT.write(LocalFileIO(), f"{tmp_path}/b.parquet", [], both)
    assert not (tmp_path / "b.parquet").exists()


def test_small_batches_share_a_row_group(io: MemoryFileIO) -> None:
    FORMAT.write(io, "/t/b.parquet", (rows(i, 10) for i in range(0, 100, 10)), SCHEMA)
    with io.open_input("/t/b.parquet") as source:
        assert pq.ParquetFile(source).metadata.num_row_groups == 1


def test_types_of_the_table_win_over_those_of_the_file(io: MemoryFileIO) -> None:
    FORMAT.write(io, "/t/e.parquet", [rows(0, 3)], SCHEMA)
    fields = [DataField(0, "id", parse_type("DECIMAL(20, 0)"))]
    (found,) = FORMAT.read(io, "/t/e.parquet", fields=fields)
    assert found.schema.field("id").type == pa.decimal128(20, 0)
    assert found.schema.field("id").metadata is None


def test_without_compression_and_with_others_the_rows_are_the_same(io: MemoryFileIO) -> None:
    for compression in ("none", "snappy", "gzip", "lz4", "brotli", "zstd"):
        FORMAT.write(io, f"/t/{compression}.parquet", [rows(0, 50)], SCHEMA, compression, 3)
        assert sum(b.num_rows for b in FORMAT.read(io, f"/t/{compression}.parquet")) == 50


def test_a_compression_that_only_other_formats_have_is_refused(io: MemoryFileIO) -> None:
    with pytest.raises(UnsupportedFeature, match="'zlib' does not go with .* 'parquet': use one of .*gzip"):
        FORMAT.write(io, "/t/a.parquet", [rows(0, 5)], SCHEMA, "zlib", 3)


def test_a_write_that_fails_leaves_no_file(io: MemoryFileIO, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(0, 3)
        raise RuntimeError("the rows end here")

    for storage, path in ((io, "/t/f.parquet"), (LocalFileIO(), f"{tmp_path}/f.parquet")):
        with pytest.raises(RuntimeError, match="end here"):
            FORMAT.write(storage, path, failing(), SCHEMA)
        assert not storage.exists(path)


def test_bytes_that_are_no_parquet_file_are_corrupt_and_a_missing_file_is_not_found(io: MemoryFileIO) -> None:
    io.write("/t/g.parquet", b"PAR1 and more, but not a footer PAR1")
    with pytest.raises(Corrupt, match=r"g\.parquet"):
        list(FORMAT.read(io, "/t/g.parquet"))
    io.write("/t/h.parquet", b"")
    with pytest.raises(Corrupt, match=r"h\.parquet"):
        FORMAT.file_columns(io, "/t/h.parquet")
    with pytest.raises(NotFound):
        FORMAT.file_columns(io, "/t/nothing.parquet")


def test_damaged_pages_are_corrupt(io: MemoryFileIO) -> None:
    FORMAT.write(io, "/t/i.parquet", [rows(0, 5000)], SCHEMA)
    data = bytearray(io.read("/t/i.parquet"))
    data[200:2000] = b"\xff" * 1800
    io.write("/t/i.parquet", bytes(data))
    with pytest.raises(Corrupt, match=r"i\.parquet"):
        list(FORMAT.read(io, "/t/i.parquet"))


def metadata(io: MemoryFileIO, path: str) -> pq.FileMetaData:
    with io.open_input(path) as source:
        return pq.ParquetFile(source).metadata


def test_a_row_group_has_the_rows_that_are_worth_skipping(io: MemoryFileIO) -> None:
    FORMAT.write(io, "/t/g.parquet", (rows(i, 50_000) for i in range(0, 150_000, 50_000)), SCHEMA)
    found = metadata(io, "/t/g.parquet")
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [65_536, 65_536, 18_928]
    wide = pa.record_batch({"id": pa.array(range(20_000), pa.int64()), "name": ["x" * 1000] * 20_000})
    FORMAT.write(io, "/t/w.parquet", [wide], SCHEMA)
    found = metadata(io, "/t/w.parquet")
    assert found.num_row_groups == 3 and max(found.row_group(i).num_rows for i in range(3)) < 8500


def test_columns_of_many_values_have_no_dictionary_and_whole_numbers_are_stored_as_differences(
    io: MemoryFileIO,
) -> None:
    parts = ("id BIGINT", "few STRING", "many STRING", "pairs MAP<STRING, INT>", "list ARRAY<INT>", "row ROW<a INT>")
    fields = [DataField(i, *_named(part)) for i, part in enumerate(parts)]
    ids = list(range(5000))
    columns = [ids, [f"v{i % 9}" for i in ids], [f"v{i}" for i in ids], [[("k", 1)]] * 5000, [[1, 2]] * 5000]
    target = file_schema(fields)
    arrays = [pa.array(c, f.type) for c, f in zip([*columns, [{"a": 1}] * 5000], target, strict=True)]
    FORMAT.write(io, "/t/e.parquet", [pa.RecordBatch.from_arrays(arrays, schema=target)], target)
    group = metadata(io, "/t/e.parquet").row_group(0)
    encodings = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in encodings.pop("id")
    assert "RLE_DICTIONARY" not in encodings.pop("many")
    assert len(encodings) == 5
    assert all("RLE_DICTIONARY" in found for found in encodings.values())
    assert group.column(0).has_column_index and group.column(0).has_offset_index


def _named(part: str) -> tuple[str, DataType]:
    name, _, kind = part.partition(" ")
    nested = {
        "MAP<STRING, INT>": MapType(STRING.with_nullable(False), parse_type("INT")),
        "ARRAY<INT>": ArrayType(parse_type("INT")),
        "ROW<a INT>": RowType((DataField(9, "a", parse_type("INT")),)),
    }
    return name, nested.get(kind) or parse_type(kind)


@pytest.mark.parametrize("batch_rows", [100, 65_536])
@pytest.mark.parametrize("low", [0, 69_000, 69_999, 70_000])
def test_a_filter_finds_the_same_rows_whether_its_columns_are_known_or_not(
    io: MemoryFileIO, low: int, batch_rows: int
) -> None:
    FORMAT.write(io, "/t/f.parquet", (rows(i, 10_000) for i in range(0, 70_000, 10_000)), SCHEMA)
    given = {"filter": pc.field("id") >= low, "batch_rows": batch_rows}
    known = list(FORMAT.read(io, "/t/f.parquet", ["name", "id"], filter_columns=["id"], **given))
    assert all(b.num_rows <= batch_rows for b in known)
    assert [i for b in known for i in b.column("id").to_pylist()] == list(range(low, 70_000))
    unknown = list(FORMAT.read(io, "/t/f.parquet", ["name", "id"], **given))
    assert [n for b in known for n in b.column("name").to_pylist()] == [
        n for b in unknown for n in b.column("name").to_pylist()
    ]
    bare = FORMAT.read(io, "/t/f.parquet", [], filter_columns=["id"], **given)
    assert sum(b.num_rows for b in bare) == 70_000 - low
