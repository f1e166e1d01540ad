from __future__ import annotations

import io
import json
import uuid
import zlib
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat.avro import AvroFormat
from lakelog.fileformat.avro_container import Container, parse_container
from lakelog.fileformat.avro_file import read_parts, read_records, read_schema, write_records
from lakelog.io.storage.memory import MemoryFileIO

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
}
RECORDS = [{"n": 1, "t": 5}, {"n": -(2**63), "t": None}, {"n": 3, "t": 2**60}]


@pytest.mark.parametrize("compression", ["zstd", "none", "null"])
def test_records_come_back_with_raw_times(compression: str) -> None:
    assert read_records(write_records(SCHEMA, RECORDS, compression)) == RECORDS


def test_a_file_without_records_is_a_file() -> None:
    data = write_records(SCHEMA, [])
    assert read_records(data) == []
    assert read_schema(data)["fields"][1]["type"][1]["logicalType"] == "timestamp-millis"


@pytest.mark.parametrize("codec", [b"zstandard", b"deflate", b"snappy"])
def test_the_codecs_of_other_writers_are_read(codec: bytes) -> None:
    plain = parse_container(write_records(SCHEMA, RECORDS, "none"))
    ((count, block),) = plain.blocks
    compressed = {
        b"zstandard": lambda: pa.compress(block, "zstd", asbytes=True),
        b"deflate": lambda: zlib.compress(block, wbits=-15),
        b"snappy": lambda: pa.compress(block, "snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big"),
    }[codec]()
    whole = Container(plain.header, plain.sync, ((count, compressed),)).to_bytes("null")
    named = whole.replace(b"\x08null", bytes((2 * len(codec),)) + codec)
    assert read_records(named) == RECORDS


def test_a_codec_that_is_not_known_is_refused_by_name() -> None:
    data = write_records(SCHEMA, RECORDS, "none").replace(b"\x08null", b"\x08lzma")
    with pytest.raises(UnsupportedFeature, match="'lzma'"):
        read_records(data)


def test_many_records_fill_several_blocks() -> None:
    records = [{"n": n * 2**40, "t": n} for n in range(30_000)]
    data = write_records(SCHEMA, records)
    assert len(parse_container(data).blocks) > 1
    assert read_records(data) == records


def test_other_readers_see_the_times() -> None:
    (first, *_) = fastavro.reader(io.BytesIO(write_records(SCHEMA, RECORDS[:1], "none")))
    assert first == {"n": 1, "t": datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC)}


def test_bytes_that_are_no_avro_file_are_corrupt() -> None:
    whole = write_records(SCHEMA, RECORDS)
    other_sync = whole[:-1] + bytes((whole[-1] ^ 1,))
    for data in (b"", b"Obj", b"Obj\x01", b"Obj\x02" + whole[4:], whole[:40], whole[:-20], other_sync):
        with pytest.raises(Corrupt):
            read_records(data)


def test_a_map_without_text_keys_is_a_list_of_pairs() -> None:
    pair = {
        "type": "record",
        "name": "pair",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "string"], "default": None}],
    }
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "m", "type": ["null", {"type": "array", "items": pair, "logicalType": "map"}]}],
    }
    files = MemoryFileIO("avro-tests")
    files.write("/m.avro", write_records(schema, [{"m": [{"key": 1, "value": "a"}]}, {"m": None}]))
    (batch,) = AvroFormat().read(files, "/m.avro")
    assert batch.schema.field("m").type == pa.map_(pa.int32(), pa.string())
    assert batch.column(0).to_pylist() == [[(1, "a")], None]


def test_a_union_of_two_types_is_refused() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "u", "type": ["int", "string"]}]}
    files = MemoryFileIO("avro-tests")
    files.write("/u.avro", write_records(schema, [{"u": 1}]))
    with pytest.raises(UnsupportedFeature, match="union"):
        list(AvroFormat().read(files, "/u.avro"))


@pytest.mark.parametrize("codec", [b"zstandard", b"deflate", b"snappy", b"null"])
def test_metadata_that_becomes_very_large_is_refused(codec: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.fileformat.avro_file._LIST_BYTES", 1 << 20)
    plain = bytes(4 << 20)
    pack = zlib.compressobj(wbits=-15)
    data = {
        b"zstandard": lambda: pa.Codec("zstd").compress(plain, asbytes=True),
        b"deflate": lambda: pack.compress(plain) + pack.flush(),
        b"snappy": lambda: b"\x80\x80\x80\x80\x0f",  # only says how much it is
        b"null": lambda: plain,
    }[codec]()
    made = Container({"avro.codec": codec, "avro.schema": b'"long"'}, bytes(16), ((1, data),)).to_bytes("null")
    bomb = made.replace(b"avro.codec\x08null", b"avro.codec" + bytes([2 * len(codec)]) + codec)
    if codec == b"null":
        assert len(read_records(bomb)) == 1  # large itself
        return
    with pytest.raises(Corrupt, match="invalid Avro file"):
        read_records(bomb)
    monkeypatch.setattr("lakelog.fileformat.avro_container._BLOCK_BYTES", 1 << 20)
    with pytest.raises(Corrupt, match="invalid Avro file"):
        next(read_parts(bomb))


def test_a_few_bytes_do_not_become_any_number_of_records() -> None:
    empty = {"type": "record", "name": "e", "fields": []}
    for schema, block in (
        (empty, (1 << 60, b"")),
        ({"type": "array", "items": "null"}, (1, b"\x80\x80\x80\x80\x80\x40\x00")),
        ({"type": "array", "items": empty}, (1, b"\x80\x80\x80\x80\x80\x40\x00")),
        ({"type": "record", "name": "r", "fields": [
            {"name": "a", "type": empty}, {"name": "b", "type": {"type": "array", "items": "e"}},
        ]}, (1, b"\x80\x80\x80\x80\x80\x40\x00")),
    ):  # fmt: skip
        header = {"avro.schema": json.dumps(schema).encode()}
        with pytest.raises(Corrupt, match="invalid Avro file"):
            read_records(Container(header, bytes(16), (block,)).to_bytes("null"))


def test_a_list_of_files_has_no_more_records_than_its_bytes_can_name() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "string"}]}
    honest = write_records(schema, ({"v": str(uuid.uuid4())} for _ in range(200_000)))
    assert len(read_records(honest)) == 200_000
    bomb = write_records(schema, ({"v": "a" * 36} for _ in range(200_000)))
    assert len(bomb) < len(honest) // 100
    with pytest.raises(Corrupt, match="bytes or more"):
        read_records(bomb)


def test_a_data_file_is_read_part_by_part() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "string"}]}
    data = write_records(schema, ({"v": "a" * 1_000} for _ in range(100_000)))
    sizes = [sum(1 for _ in part) for part in read_parts(data)]
    assert sum(sizes) == 100_000 and max(sizes) < 10_000
    large = write_records(schema, [{"v": "a" * (70 << 20)}])  # one row: stored as it is, and so it is read
    assert [len(row["v"]) for part in read_parts(large) for row in part] == [70 << 20]
