"""What records unpack to is known and bounded before they are unpacked."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt
from lakelog.io.arrow_messages import UnpackLimit
from lakelog.logstore.base import Records
from lakelog.logstore.formats import log_format
from lakelog.logstore.pulsar.packs import PACK_KEY, Entry, pack_of
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, TooLarge, compress, decompress
from lakelog.logstore.record_batch.decoder import decode, unpacked
from lakelog.logstore.record_batch.encoder import encode
from lakelog.table.runs.runs import run_from_ipc, run_to_ipc

MIB = 1 << 20
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
NAMES = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}


def message(columns: dict[str, pa.Array], compression: str | None = "zstd") -> bytes:
    rows = len(next(iter(columns.values())))
    batch = pa.RecordBatch.from_pydict({**columns, "_row_kind": pa.array(np.zeros(rows, np.int8))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


LARGE: dict[str, Callable[[], bytes]] = {
    "many rows": lambda: message({"id": pa.array(np.zeros(300_000, np.int64))}),
    "many rows with lz4": lambda: message({"id": pa.array(np.zeros(300_000, np.int64))}, "lz4"),
    "long texts": lambda: message({"v": pa.array(["a" * (40 * MIB)])}),
    "long lists": lambda: message({"l": pa.array([[0] * (2 * MIB)], pa.list_(pa.int64()))}),
    "nulls": lambda: message({"n": pa.nulls(1_000_000)}, None),
    "a dictionary": lambda: message({"v": pa.array(["a" * 10_000]).dictionary_encode().take(pa.array([0] * 9))}, None),
    "views": lambda: message({"v": pa.array(["a" * 10_000] * 9, pa.string_view())}, None),
    "runs": lambda: message({"v": pa.RunEndEncodedArray.from_arrays([60_000], ["a"])}, None),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_message_of_few_bytes_stays_small(name: str) -> None:
    value = LARGE[name]()
    before = pa.total_allocated_bytes()
    with pytest.raises(Corrupt, match="is not an arrow message"):
        log_format("arrow").decode(pa.array([value], pa.large_binary()), SCHEMA)
    assert pa.total_allocated_bytes() - before < 2 * MIB


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_messages_of_other_producers_are_read(compression: str | None) -> None:
    value = message({"id": pa.array(range(8_192)), "v": pa.array([f"row {n}" for n in range(8_192)])}, compression)
    assert log_format("arrow").decode(pa.array([value], pa.large_binary()), SCHEMA).num_rows == 8_192


@pytest.mark.parametrize("cut", [1, 5, 9, 40, 120])
def test_a_message_that_ends_too_soon_is_refused(cut: int) -> None:
    with pytest.raises(pa.ArrowInvalid):
        UnpackLimit(9, MIB).check(message({"id": pa.array([1])})[4:-cut] + b"\x01" * cut)


def packed(data: bytes, codec: int) -> bytes:
    if codec == SNAPPY:
        return bytes(pa.Codec("snappy").compress(data, asbytes=True))
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, NAMES[codec]) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_records_of_few_bytes_stay_small(codec: int) -> None:
    data = packed(bytes(100 * MIB), codec) if codec != SNAPPY else b"\x80\x80\x80\xc8\x01" + bytes(100)
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLarge):
        decompress(data, codec)
    assert pa.total_allocated_bytes() - before < 2 * MIB


def test_lakelogs_own_batches_are_read_however_well_they_are_compressed() -> None:
    values = pa.array([b"a" * 200_000] * 40 + [b"b" * (20 * MIB)], pa.large_binary())
    batches, at = list[RecordBatch](), 0
    for batch in encode(Records(pa.nulls(41, pa.large_binary()), values, b"1|d|w|0|a"), 0):
        batches.append(replace(batch, base_offset=at))
        at += batch.count
    found = decode(batches)
    assert found.column("value").to_pylist() == values.to_pylist()


@pytest.mark.parametrize(
    "batch",
    [
        RecordBatch(zlib.compress(bytes(100 * MIB), wbits=31), 3, GZIP, 0, 0, 2, 70),
        RecordBatch(b"", 1 << 30, NONE, 0, 0, 2, 70),
    ],
    ids=["bytes", "count"],
)
def test_records_that_are_too_large_keep_their_offsets_for_those_who_skip_them(batch: RecordBatch) -> None:
    (good,) = encode(Records(pa.nulls(1, pa.large_binary()), pa.array([b"x"], pa.large_binary()), b"1|d|w|0|a"), 0)
    found = decode([unpacked(one) for one in (replace(good, base_offset=69), batch, replace(good, base_offset=73))])
    assert found.column("offset").to_pylist() == [69, 70, 71, 72, 73]
    assert all(value.startswith(b"unreadable: ") for value in found.column("value").to_pylist()[1:4])


def test_a_pack_of_few_bytes_stays_small() -> None:
    columns = {"key": pa.nulls(1, pa.large_binary()), "value": pa.array([b"a" * (40 * MIB)], pa.large_binary())}
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict(columns)
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    pack = pack_of(Entry(0, 1), -1, 0, {PACK_KEY: "1|1|1"}, None, bytes(sink.getvalue()))
    with pytest.raises(Corrupt, match="would unpack to"):
        pack.columns()


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_records_that_compress_too_well_to_be_trusted_are_stored_as_they_are(codec: int) -> None:
    plain = b"n" * (40 * MIB)
    data, used = compress(plain, codec)
    assert decompress(data, used) == plain


def test_a_staged_run_is_read_however_well_it_compresses() -> None:
    rows = pa.table({"v": ["n" * 2_000] * 4_000, "_lakelog_order": range(4_000), "_lakelog_kind": [0] * 4_000})
    assert run_from_ipc(run_to_ipc(rows)).equals(rows)
