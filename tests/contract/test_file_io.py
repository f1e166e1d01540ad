"""What every storage promises, over all of them: real servers and twins in memory, too."""

from __future__ import annotations

import pickle
import threading
import uuid
from pathlib import Path

import pytest

from faults import FaultPlan, FaultyFileIO
from lakelog.errors import AlreadyExists, NotFound, TableReplaced, UnsupportedFeature
from lakelog.io import file_io_for
from lakelog.io.locks.file import FileLock
from lakelog.io.storage.delegating import LockedFileIO
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.memory import MemoryFileIO


@pytest.fixture(
    params=[
        "local",
        "memory",
        "faulty",
        "locked",
        pytest.param("s3", marks=pytest.mark.s3),
        pytest.param("hdfs", marks=pytest.mark.hdfs),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def io(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> FileIO:
    if kind == "s3":
        return file_io_for("s3://any", request.getfixturevalue("s3_server").options)
    if kind == "hdfs":
        return file_io_for(request.getfixturevalue("hdfs_cluster").uri)
    memory = MemoryFileIO(uuid.uuid4().hex)
    if kind == "faulty":
        return FaultyFileIO(memory, FaultPlan())
    if kind == "locked":
        return LockedFileIO(memory, FileLock(str(tmp_path / "locks")))
    return LocalFileIO() if kind == "local" else memory


@pytest.fixture
def root(io: FileIO, kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "s3":
        return io.absolute(f"s3://{request.getfixturevalue('s3_server').new_bucket()}/my warehouse/")
    if kind == "hdfs":
        return io.absolute(f"{request.getfixturevalue('hdfs_cluster').uri}/{uuid.uuid4().hex}/my warehouse/")
    return io.absolute(str(tmp_path / "warehouse"))


def test_what_is_written_is_read(io: FileIO, root: str) -> None:
    io.write(f"{root}/a/b/file", b"one")
    assert io.read(f"{root}/a/b/file") == b"one"
    assert io.size(f"{root}/a/b/file") == 3
    assert io.exists(f"{root}/a/b/file")
    assert io.exists(f"{root}/a/b")


def test_write_replaces_and_leaves_nothing_else(io: FileIO, root: str) -> None:
    io.write(f"{root}/hint", b"1")
    io.write(f"{root}/hint", b"22")
    assert io.read(f"{root}/hint") == b"22"
    assert [s.name for s in io.list(root)] == ["hint"]


def test_create_makes_a_file_once(io: FileIO, root: str) -> None:
    assert io.create(f"{root}/snapshot/snapshot-1", b"first") is True
    assert io.create(f"{root}/snapshot/snapshot-1", b"second") is False
    assert io.read(f"{root}/snapshot/snapshot-1") == b"first"
    assert [s.name for s in io.list(f"{root}/snapshot")] == ["snapshot-1"]


def test_one_of_many_rivals_creates_the_file_with_its_bytes(io: FileIO, root: str) -> None:
    together = threading.Barrier(8)
    won: list[bytes] = []

    def rival(number: int) -> None:
        together.wait()
        for round_number in range(10):
            data = f"{number}".encode() * 1000
            if io.create(f"{root}/s/{round_number}", data):
                won.append(data + b"/" + str(round_number).encode())

    threads = [threading.Thread(target=rival, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 10
    for entry in won:
        data, _, number = entry.partition(b"/")
        assert io.read(f"{root}/s/{number.decode()}") == data


def test_an_output_is_there_after_close(io: FileIO, root: str) -> None:
    with io.open_output(f"{root}/bucket-0/data-1.parquet") as sink:
        sink.write(b"abc")
        sink.write(b"def")
        assert sink.tell() == 6
    assert io.read(f"{root}/bucket-0/data-1.parquet") == b"abcdef"


def test_a_large_output_is_whole_and_read_in_pieces(io: FileIO, root: str) -> None:
    pieces = [bytes([n]) * 5_000_001 for n in range(4)]
    with io.open_output(f"{root}/large") as sink:
        for piece in pieces:
            sink.write(piece)
    assert io.size(f"{root}/large") == 20_000_004
    with io.open_input(f"{root}/large") as source:
        source.seek(5_000_000)
        assert source.read(3) == b"\x00\x01\x01"
        source.seek(0)
        assert source.read() == b"".join(pieces)


def test_an_input_reads_at_any_place(io: FileIO, root: str) -> None:
    io.write(f"{root}/file", b"0123456789")
    with io.open_input(f"{root}/file") as source:
        source.seek(7)
        assert source.read(2) == b"78"
        assert source.size() == 10


@pytest.mark.parametrize("call", ["read", "open_input", "size"])
def test_a_missing_file_is_not_found_by_name(io: FileIO, root: str, call: str) -> None:
    with pytest.raises(NotFound, match="missing-file"):
        getattr(io, call)(f"{root}/missing-file")


def test_a_listing_has_files_and_directories_by_name(io: FileIO, root: str) -> None:
    io.write(f"{root}/t/b", b"12")
    io.write(f"{root}/t/a/inner", b"1")
    io.makedirs(f"{root}/t/c")
    found = io.list(f"{root}/t")
    assert [(s.name, s.is_dir) for s in found] == [("a", True), ("b", False), ("c", True)]
    assert found[1].size == 2
    assert found[1].mtime_ms > 1_600_000_000_000
    assert io.read(found[1].path) == b"12"


def test_a_missing_directory_lists_nothing(io: FileIO, root: str) -> None:
    assert io.list(f"{root}/nowhere") == []
    assert not io.exists(f"{root}/nowhere")


def test_deleting_what_is_missing_is_fine(io: FileIO, root: str) -> None:
    io.delete(f"{root}/nothing")
    io.delete_dir(f"{root}/nothing")


def test_delete_removes_one_file_and_delete_dir_all(io: FileIO, root: str) -> None:
    io.write(f"{root}/t/a", b"1")
    io.write(f"{root}/t/b/c", b"1")
    io.write(f"{root}/table", b"1")
    io.delete(f"{root}/t/a")
    assert [s.name for s in io.list(f"{root}/t")] == ["b"]
    io.delete_dir(f"{root}/t")
    assert [s.name for s in io.list(root)] == ["table"]


def test_storage_survives_the_way_to_an_executor(io: FileIO, root: str) -> None:
    if isinstance(io, FaultyFileIO):
        io = io.inner  # a plan counts the calls of one process
    io.write(f"{root}/file", b"1")
    received = pickle.loads(pickle.dumps(io))
    assert received == io
    assert received.read(f"{root}/file") == b"1"


def test_names_with_escapes_and_letters_of_all_kinds_are_kept(io: FileIO, root: str) -> None:
    path = f"{root}/day=a%2Fb d%25é/bucket-0/x"
    io.write(path, b"1")
    assert [s.name for s in io.list(root)] == ["day=a%2Fb d%25é"]
    assert io.read(path) == b"1"


def test_a_renamed_directory_is_at_its_new_place_only(io: FileIO, root: str, kind: str) -> None:
    io.write(f"{root}/t/a/one", b"1")
    io.write(f"{root}/t2/one", b"2")
    if kind == "s3":
        with pytest.raises(UnsupportedFeature, match="cannot rename a directory in one step"):
            io.rename_dir(f"{root}/t", f"{root}/db/s")
        assert io.read(f"{root}/t/a/one") == b"1"
        return
    io.makedirs(f"{root}/t/empty")
    io.rename_dir(f"{root}/t", f"{root}/db/s")
    assert io.read(f"{root}/db/s/a/one") == b"1"
    assert [s.name for s in io.list(f"{root}/db/s")] == ["a", "empty"]
    assert sorted(s.name for s in io.list(root)) == ["db", "t2"]


def test_storage_within_a_directory_makes_those_below_it_and_never_itself(io: FileIO, root: str, kind: str) -> None:
    if kind not in ("local", "hdfs"):
        assert io.within(f"{root}/t") == io, "it has no directories that could come back"
        return
    io.makedirs(f"{root}/t")
    inside = pickle.loads(pickle.dumps(io.within(f"{root}/t")))
    assert inside != io
    assert inside.create(f"{root}/t/a/b/file", b"one")
    inside.write(f"{root}/t/a/c/file", b"two")
    with inside.open_output(f"{root}/t/d/file") as sink:
        sink.write(b"three")
    inside.makedirs(f"{root}/t/e/f")
    assert [s.name for s in io.list(f"{root}/t")] == ["a", "d", "e"]
    inside.write(f"{root}/elsewhere/file", b"four")
    io.rename_dir(f"{root}/t", f"{root}/s")
    for use in (
        lambda: inside.create(f"{root}/t/a/b/file", b"lost"),
        lambda: inside.write(f"{root}/t/hint", b"lost"),
        lambda: inside.open_output(f"{root}/t/d/file"),
        lambda: inside.makedirs(f"{root}/t/e"),
        lambda: inside.makedirs(f"{root}/t"),
    ):
        with pytest.raises(TableReplaced, match="dropped or renamed.*open it again"):
            use()
    assert not io.exists(f"{root}/t")
    assert inside.list(f"{root}/t") == []


def test_a_directory_is_not_renamed_onto_an_existing_one(io: FileIO, root: str, kind: str) -> None:
    io.write(f"{root}/t/one", b"1")
    io.write(f"{root}/s/one", b"2")
    refused, missing = (UnsupportedFeature,) * 2 if kind == "s3" else (AlreadyExists, NotFound)
    with pytest.raises(refused):
        io.rename_dir(f"{root}/t", f"{root}/s")
    assert (io.read(f"{root}/t/one"), io.read(f"{root}/s/one")) == (b"1", b"2")
    with pytest.raises(missing):
        io.rename_dir(f"{root}/nothing", f"{root}/x")


def test_files_that_are_written_together_are_all_there(io: FileIO, root: str) -> None:
    files = {f"{root}/manifest/{name}": name.encode() for name in ("one", "two", "three")}
    io.write_all(files | {f"{root}/other/four": b"4"})
    io.write_all({})
    assert {path: io.read(path) for path in files} == files
    assert [s.name for s in io.list(f"{root}/manifest")] == ["one", "three", "two"]
    assert io.read(f"{root}/other/four") == b"4"


def test_a_hint_is_written_and_replaced(io: FileIO, root: str) -> None:
    io.write_hint(f"{root}/snapshot/LATEST", b"1")
    io.write_hint(f"{root}/snapshot/LATEST", b"22")
    assert io.read(f"{root}/snapshot/LATEST") == b"22"
    assert [s.name for s in io.list(f"{root}/snapshot")] == ["LATEST"]


def test_in_a_held_directory_files_are_read_and_deleted(io: FileIO, root: str) -> None:
    io.write(f"{root}/t/deep/a", b"1")
    io.write(f"{root}/t/deep/b", b"2")
    with io.hold(f"{root}/t") as held:
        assert held.read(f"{root}/t/deep/a") == b"1"
        held.delete(f"{root}/t/deep/a")
        held.delete(f"{root}/t/deep/a")
    assert [s.name for s in io.list(f"{root}/t/deep")] == ["b"]
