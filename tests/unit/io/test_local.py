from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakelog.errors import CommitUnknown, Corrupt, NotFound, Unavailable, UnsupportedFeature
from lakelog.io import file_io_for
from lakelog.io.storage.local import LocalFileIO


def test_a_path_and_a_file_uri_are_the_same_place(tmp_path: Path) -> None:
    io = LocalFileIO()
    io.write(f"file://{tmp_path}/a", b"1")
    assert io.read(str(tmp_path / "a")) == b"1"
    assert io.absolute(f"file:{tmp_path}/") == io.absolute(f"file://{tmp_path}") == str(tmp_path)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert LocalFileIO().absolute("./warehouse") == str(tmp_path / "warehouse")


def test_a_warehouse_without_a_known_scheme_is_refused_with_what_works() -> None:
    with pytest.raises(UnsupportedFeature, match=r"'ftp'.*file.*s3.*hdfs"):
        file_io_for("ftp://host/warehouse")
    assert file_io_for("./warehouse") == file_io_for("file:///tmp/w") == LocalFileIO()


@pytest.mark.parametrize(
    ("call", "code", "error", "text"),
    [
        ("link", errno.EPERM, UnsupportedFeature, "hard links"),
        ("link", errno.EIO, CommitUnknown, "a"),  # its answer is lost
        ("link", errno.ENOSPC, Unavailable, "No space left"),
        ("fsync", errno.ENOSPC, Unavailable, "No space left"),
    ],
)
def test_a_create_that_the_disk_refuses_says_what_is_known_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, error: type[Exception], text: str
) -> None:
    def fails(*given: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(error, match=text):
        LocalFileIO().create(f"{tmp_path}/a", b"1")
    assert list(tmp_path.iterdir()) == [] or error is CommitUnknown


def test_a_link_that_was_asked_for_twice_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert LocalFileIO().create(f"{tmp_path}/a", b"1") is True


@pytest.mark.parametrize("moments", [1, 4, 5])
def test_a_directory_is_deleted_during_concurrent_writes(tmp_path: Path, monkeypatch, moments: int) -> None:
    io, place = LocalFileIO(), tmp_path / "t"
    io.write(f"{place}/bucket-0/data", b"")
    left, rmdir = [moments], os.rmdir

    def after_another_file(path: str, *given: object, **more: object) -> None:
        if path == "bucket-0" and left[0]:
            left[0] -= 1
            (place / "bucket-0" / f"late-{left[0]}").write_bytes(b"")
        rmdir(path, *given, **more)

    monkeypatch.setattr(os, "rmdir", after_another_file)
    if moments == 5:
        with pytest.raises(Unavailable, match="not empty"):
            io.delete_dir(str(place))
    else:
        io.delete_dir(str(place))
        assert not place.exists()


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (LocalFileIO().read, LocalFileIO().open_input):
        with pytest.raises(Corrupt, match="pipe"):
            read(str(tmp_path / "pipe"))


def test_a_sparse_file_of_any_size_is_not_read_whole(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Corrupt, match="1,099,511,627,776 bytes"):
        LocalFileIO().read(str(tmp_path / "sparse"))


def test_a_list_leaves_out_links_to_themselves_and_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "data").touch()
    os.mkdir(os.fsencode(tmp_path) + b"/\xff.db")
    io = LocalFileIO()
    assert [os.path.basename(one.path) for one in io.list(str(tmp_path))] == ["data"]
    assert io.list(str(tmp_path / "loop")) == []


def test_a_held_directory_is_the_same_one_when_another_takes_its_name(tmp_path: Path) -> None:
    io, table = LocalFileIO(), f"{tmp_path}/t"
    io.write(f"{table}/deep/a", b"old")
    with io.hold(f"file:{table}") as held:
        io.rename_dir(table, f"{tmp_path}/away")
        io.write(f"{table}/deep/a", b"new")
        assert held.read(f"file:{table}/deep/a") == b"old"
        held.delete(f"{table}/deep/a")
    assert io.read(f"{table}/deep/a") == b"new"
    assert not io.exists(f"{tmp_path}/away/deep/a")


def test_a_directory_that_does_not_exist_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="missing"), LocalFileIO().hold(f"{tmp_path}/missing"):
        pass
