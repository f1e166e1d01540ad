"""A rename on HDFS whose answer is lost, repeated or refused; good days are in the contract suite."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from lakelog.errors import CommitUnknown, InvalidRequest, LakelogError, Unavailable
from lakelog.io.storage import hdfs
from lakelog.io.storage.hdfs import HdfsFileIO

PATH = "hdfs://name:8020/t/snapshot-1"


class Client:
    """A name node in memory; ``on_rename`` and ``on_delete`` may do something else first.

    The next ``unreported`` readers do not find the last block.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.on_rename: Callable[[str, str], None] = lambda source, target: None
        self.on_delete: Callable[[str], None] = lambda name: None
        self.unreported = 0

    def get_file_info(self, name: str) -> SimpleNamespace:
        if name not in self.files:
            raise FileNotFoundError(name)
        return SimpleNamespace(length=len(self.files[name]))

    def create(self, name: str, options: object) -> Sink:
        return Sink(self, name)

    def read(self, name: str) -> Sink:
        self.get_file_info(name)
        self.unreported -= 1
        return Sink(self, name, is_empty=self.unreported >= 0)

    def delete(self, name: str, recursive: bool = False) -> bool:
        self.on_delete(name)
        return self.files.pop(name, None) is not None

    def move(self, source: str, target: str) -> None:
        if source not in self.files:
            raise FileNotFoundError(source)
        if target in self.files:
            raise FileExistsError(target)
        self.files[target] = self.files.pop(source)

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        self.on_rename(source, target)
        self.move(source, target)


class Sink:
    """A file that is open."""

    def __init__(self, client: Client, name: str, is_empty: bool = False) -> None:
        self._client, self._name, self._is_empty = client, name, is_empty

    def __len__(self) -> int:
        return len(self.read())

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held back."""

    def write(self, data: bytes) -> None:
        self._client.files[self._name] = data

    def hsync(self) -> None:
        """It is there."""

    def read(self) -> bytes:
        return b"" if self._is_empty else self._client.files[self._name]

    def read_range(self, start: int, length: int) -> bytes:
        return self.read()[start : start + length]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(hdfs, "_client", lambda root, options: made)
    return made


def fail(*words: object) -> None:
    raise OSError("connection reset")


def create() -> bool:
    return HdfsFileIO().create(PATH, b"1")


def test_a_rename_makes_the_file_once_and_leaves_no_other(client: Client) -> None:
    assert create() is True
    assert create() is False
    assert client.files == {"/t/snapshot-1": b"1"}


def test_a_rename_that_a_rival_was_faster_with_is_lost(client: Client) -> None:
    client.on_rename = lambda source, target: client.files.update({target: b"rival"})
    assert create() is False
    assert client.files == {"/t/snapshot-1": b"rival"}


@pytest.mark.parametrize("error", [FileExistsError, FileNotFoundError])
def test_a_rename_that_the_client_repeated_is_ours(client: Client, error: type[OSError]) -> None:
    def repeated(source: str, target: str) -> None:
        client.move(source, target)
        raise error(target)

    client.on_rename = repeated
    assert create() is True


def test_a_lost_answer_to_a_rename_that_was_made_is_found_out_by_looking(client: Client) -> None:
    def lost(source: str, target: str) -> None:
        client.move(source, target)
        fail()

    client.on_rename = lost
    assert create() is True


def test_a_lost_request_is_taken_back_so_that_it_cannot_come_later(client: Client) -> None:
    asked: list[tuple[str, str]] = []

    def lost(source: str, target: str) -> None:
        asked.append((source, target))
        fail()

    client.on_rename = lost
    with pytest.raises(Unavailable, match="connection reset"):
        create()
    with pytest.raises(FileNotFoundError):
        client.move(*asked[0])
    assert client.files == {}


def test_without_any_answer_the_commit_is_unknown(client: Client) -> None:
    client.on_rename = fail
    client.on_delete = fail
    with pytest.raises(CommitUnknown):
        create()


@pytest.mark.parametrize("why", [PermissionError("no"), RuntimeError('RPCError("…AccessControlException", "no")')])
def test_a_refusal_names_what_to_check(client: Client, monkeypatch: pytest.MonkeyPatch, why: Exception) -> None:
    def refuse(name: str) -> None:
        raise why

    monkeypatch.setattr(client, "get_file_info", refuse)
    with pytest.raises(Unavailable, match=r"no permission.*HADOOP_USER_NAME"):
        HdfsFileIO().size(PATH)


def test_options_of_the_client_are_not_shown_in_errors(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError("cannot use hush")

    monkeypatch.setattr(client, "get_file_info", refuse)
    io = HdfsFileIO.of({"hadoop.password": "hush"})
    with pytest.raises(LakelogError, match=r"cannot use \*{6}") as raised:
        io.exists(PATH)
    assert "hush" not in repr(io) + str(raised.value)


def test_a_closed_file_is_read_whole_although_its_last_block_is_not_reported_yet(client: Client) -> None:
    client.files["/t/snapshot-1"] = b"whole"
    client.unreported = 2
    assert HdfsFileIO().read(PATH) == b"whole"
    client.unreported = 2
    with HdfsFileIO().open_input(PATH) as source:
        assert source.read() == b"whole"


def test_a_file_whose_last_block_is_missing_is_not_read_in_part(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs, "sleep", lambda seconds: None)
    client.files["/t/snapshot-1"] = b"whole"
    client.unreported = 1_000
    with pytest.raises(Unavailable, match="at 0 of 5 bytes"):
        HdfsFileIO().read(PATH)


def test_a_uri_without_a_cluster_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="name node"):
        HdfsFileIO().read("hdfs:///t")
