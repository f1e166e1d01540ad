"""A file of a few kilobytes never takes more than a bounded memory: it is read in parts, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat import format_of
from lakelog.fileformat.avro_container import Container, parse_container
from lakelog.fileformat.avro_file import write_records
from lakelog.io.arrow_messages import MessageFile
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.index.deletion_vector import decode_vector, encode_vector
from lakelog.state.sorted_run import BLOCKS

WIDE: Final = "x" * 1_000_000
ZEROS: Final = 40_000_000


def _texts(rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [WIDE])


def _one_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _parquet(path: str, column: pa.Array, **given: Any) -> None:
    pq.write_table(
        pa.table({"v": column}), path, row_group_size=1 << 30, store_schema=False, **{"compression": "zstd", **given}
    )


def _orc(path: str, batch: pa.Table, times: int) -> None:
    with orc.ORCWriter(path, compression="zstd", dictionary_key_size_threshold=1.0) as writer:
        for _ in range(times):
            writer.write(batch)


BOMBS: Final[dict[str, Callable[[str], None]]] = {
    "dictionary.parquet": lambda path: _parquet(path, _texts(1_000)),
    "dictionary in a list.parquet": lambda path: _parquet(path, _one_list(pa.array([WIDE] * 300))),
    "prefixes.parquet": lambda path: _parquet(
        path, pa.array([WIDE] * 400), use_dictionary=False, column_encoding={"v": "DELTA_BYTE_ARRAY"}
    ),
    "one page.parquet": lambda path: _parquet(path, pa.array([WIDE] * 200), use_dictionary=False, compression="brotli"),
    "a list of zeros.parquet": lambda path: _parquet(path, _one_list(pa.array(np.zeros(ZEROS, np.int8)))),
    "NULL in a list.parquet": lambda path: _parquet(path, _one_list(pa.nulls(ZEROS, pa.int8()))),
    "wide bytes.parquet": lambda path: _parquet(path, pa.array([WIDE.encode()] * 400, pa.binary(len(WIDE)))),
    "dictionary.orc": lambda path: _orc(path, pa.table({"v": [WIDE] * 10}), 60),
    "a list of zeros.orc": lambda path: _orc(path, pa.table({"v": _one_list(pa.array(np.zeros(ZEROS, np.int8)))}), 1),
}
"""Files of some kilobytes that take gigabytes, or at least hundreds of megabytes."""


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """The most memory of this process since the test began, in MiB."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("reads the memory of the process where Linux shows it")

    def of(key: str) -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith(key))
        return int(line.split()[1]) >> 10

    def above() -> int:
        return of("VmHWM") - before

    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before = of("VmRSS")
    return above


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_unpacks_to_gigabytes_is_refused_by_name(bomb: str, tmp_path: Path, request: Any) -> None:
    path = str(tmp_path / bomb)
    BOMBS[bomb](path)
    assert Path(path).stat().st_size < 20_000
    peak = request.getfixturevalue("peak")
    with pytest.raises(Corrupt, match=bomb):
        held = list(format_of(path).read(LocalFileIO(), path))  # noqa: F841
    assert peak() < 512


@pytest.mark.parametrize("name", ["x.parquet", "x.orc", "x.avro"])
def test_equal_rows_are_read_however_well_they_pack(name: str, tmp_path: Path) -> None:
    path, io = str(tmp_path / name), LocalFileIO()
    batch = pa.record_batch(
        {"id": pa.array(np.zeros(50_000, np.int64)), "v": ["a text of some length, a constant"] * 50_000}
    )
    format_of(path).write(io, path, [batch] * 8, batch.schema)
    read = list(format_of(path).read(io, path))
    assert sum(part.num_rows for part in read) == 400_000
    assert read[-1].slice(0, 1).to_pylist() == batch.slice(0, 1).to_pylist()


@pytest.mark.parametrize("name", ["x.parquet", "x.orc"])
def test_a_row_that_no_reader_would_take_is_not_written(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    batch = pa.record_batch({"v": ["x" * (130 << 20)]})
    with pytest.raises(UnsupportedFeature, match=r"a row (of|has) \d+ bytes"):
        format_of(path).write(LocalFileIO(), path, [batch], batch.schema)
    assert not Path(path).exists()
    path = str(tmp_path / "plain.parquet")
    format_of(path).write(LocalFileIO(), path, [batch], batch.schema, "none")
    (read,) = format_of(path).read(LocalFileIO(), path)
    assert read.equals(batch)


def test_lists_of_dictionaries_and_their_slices_are_what_was_written(tmp_path: Path) -> None:
    texts = [f"value {n % 7}" for n in range(3_000)]
    offsets = pa.array([0, *range(0, 3_000, 3), 3_000], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(texts))
    maps = pa.MapArray.from_arrays(offsets, pa.array([str(n) for n in range(3_000)]), pa.array(texts))
    structs = pa.StructArray.from_arrays(
        [lists, maps], names=["l", "m"], mask=pa.array([n % 5 == 0 for n in range(1_001)])
    )
    table = pa.table({"l": lists, "m": maps, "s": structs, "a.b": pa.array(texts[:1_001]).cast(pa.binary())})
    path = str(tmp_path / "x.parquet")
    pq.write_table(table, path, store_schema=False)
    for rows in (1 << 16, 7):
        read = pa.Table.from_batches(list(format_of(path).read(LocalFileIO(), path, batch_rows=rows)))
        assert read.to_pylist() == table.to_pylist()


def test_a_list_of_an_avro_block_is_bounded(tmp_path: Path) -> None:
    path = str(tmp_path / "x.avro")
    kind = {"type": "array", "items": "long"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
    Path(path).write_bytes(write_records(schema, [{"v": [0] * 2_500_000}]))
    (read,) = format_of(path).read(LocalFileIO(), path)  # a block that packs like this is written as it is
    assert len(read.column(0)[0]) == 2_500_000
    made = parse_container(Path(path).read_bytes())
    packed = pa.Codec("zstd").compress(made.blocks[0][1], asbytes=True)
    bomb = Container(made.header, made.sync, ((1, packed),)).to_bytes("null")
    Path(path).write_bytes(bomb.replace(b"\x08null", b"\x12zstandard", 1))
    with pytest.raises(Corrupt, match=r"x\.avro"):
        list(format_of(path).read(LocalFileIO(), path))


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_deletion_vector_has_no_more_rows_than_memory(is_wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = encode_vector(np.arange(1 << 16, dtype=np.int64), is_wide)
    monkeypatch.setattr("lakelog.paimon.index.deletion_vector._MOST_POSITIONS", 1 << 10)
    with pytest.raises(Corrupt, match="65536 rows"):
        decode_vector(vector)
    with pytest.raises(UnsupportedFeature, match="compact"):
        encode_vector(np.arange(1 << 16, dtype=np.int64), is_wide)


def test_a_block_of_keyed_state_unpacks_to_no_more_than_its_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "run.arrow")
    for codec, value, rows, is_sound in (
        ("lz4", "a", 8192, True),
        ("zstd", WIDE, 60, False),
        ("lz4", "a", 9000, False),
    ):
        batch = pa.record_batch({"v": [value] * rows})
        with pa.ipc.new_file(path, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_batch(batch)
        with pa.OSFile(path) as source:
            file = MessageFile(source, BLOCKS)
            if is_sound:
                assert file.batch(0).equals(batch)
            else:
                with pytest.raises(pa.ArrowInvalid, match="at most"):
                    file.batch(0)
            with pytest.raises(pa.ArrowInvalid, match="no batch"):
                file.batch(1)
