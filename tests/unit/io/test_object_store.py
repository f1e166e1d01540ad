"""What an object store answers on a bad day, and what becomes of it; good days are in the contract suite."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakelog.errors import (
    CommitUnknown,
    InvalidOption,
    InvalidRequest,
    LakelogError,
    NotFound,
    NotInstalled,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io import file_io_for
from lakelog.io.storage import object_store as module
from lakelog.io.storage.file_io import FileIO
from lakelog.service.servers.server_process import free_port
from servers.fake_s3 import FakeS3, fake_s3

PATH = "s3://b/t/snapshot-1"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    monkeypatch.setitem(module._RETRY, "max_retries", 0)
    monkeypatch.setattr(module, "_CONFLICT_PAUSES_S", (0.0,) * len(module._CONFLICT_PAUSES_S))
    with fake_s3() as running:
        yield running


def opened(server: FakeS3) -> FileIO:
    return file_io_for(PATH, server.options)


def test_a_good_server_creates_once_and_the_check_leaves_nothing(server: FakeS3) -> None:
    io = opened(server)
    assert io.create(PATH, b"1") is True
    assert io.create(PATH, b"2") is False
    assert server.objects == {"t/snapshot-1": b"1"}
    probes = [key for method, key in server.requests if method == "PUT" and key.endswith(".probe")]
    assert len(probes) == 2, "once a process and bucket"


def test_threads_that_begin_together_check_once(server: FakeS3) -> None:
    io, together = opened(server), threading.Barrier(8)

    def rival(number: int) -> bool:
        together.wait()
        return io.create(PATH, b"%d" % number)

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(rival, range(8))) == 1
    probes = [key for method, key in server.requests if method == "PUT" and key.endswith(".probe")]
    assert len(probes) == 2, "the last probe's deletion must not meet another thread's first put"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (500, CommitUnknown),
        ((503, "SlowDown"), Unavailable),
        ((403, "AccessDenied"), Unavailable),
        ((404, "NoSuchBucket"), NotFound),
        ((501, "NotImplemented"), UnsupportedFeature),
    ],
)
def test_a_put_that_was_refused_says_what_to_do_next(server: FakeS3, answer: object, error: type[Exception]) -> None:
    io = opened(server)
    io.create("s3://b/first", b"")
    server.answer = lambda method, key, objects: answer if method == "PUT" else None
    with pytest.raises(error) as raised:
        io.create(PATH, b"1")
    assert "hush" not in str(raised.value)
    assert PATH in str(raised.value)


def test_a_put_with_a_conflict_but_no_object_is_retried(server: FakeS3) -> None:
    io = opened(server)
    io.create("s3://b/first", b"")
    refusals = iter(range(4))
    server.answer = lambda method, key, objects: 412 if method == "PUT" and next(refusals, None) is not None else None
    assert io.create(PATH, b"1") is True
    assert server.objects["t/snapshot-1"] == b"1"


def test_an_answer_that_was_lost_is_an_unknown_commit_that_the_next_try_finds(server: FakeS3) -> None:
    io = opened(server)
    io.create("s3://b/first", b"")

    def lost(method: str, key: str, objects: dict[str, bytes]) -> int | None:
        if method != "PUT":
            return None
        objects[key] = b"1"
        return 500

    server.answer = lost
    with pytest.raises(CommitUnknown):
        io.create(PATH, b"1")
    server.answer = lambda method, key, objects: None
    assert io.create(PATH, b"1") is False
    assert io.read(PATH) == b"1"


def test_a_refusal_that_left_nothing_there_is_tried_again(server: FakeS3) -> None:
    io = opened(server)
    io.create("s3://b/first", b"")
    left = iter([(409, "ConditionalRequestConflict")])
    server.answer = lambda method, key, objects: next(left, None) if method == "PUT" else None
    assert io.create(PATH, b"1") is True
    server.answer = lambda method, key, objects: (409, "ConditionalRequestConflict") if method == "PUT" else None
    with pytest.raises(CommitUnknown):
        io.create("s3://b/t/snapshot-2", b"1")


def test_a_store_that_ignores_the_condition_is_found_out_before_it_costs_a_commit(server: FakeS3) -> None:
    io = opened(server)

    def careless(method: str, key: str, objects: dict[str, bytes]) -> int | None:
        if method == "PUT":
            objects[key] = b"?"
            return 200
        return None

    server.answer = careless
    with pytest.raises(UnsupportedFeature, match=r"storage\.lock"):
        io.create(PATH, b"1")
    assert server.objects == {}


def test_a_store_without_conditional_put_is_found_out_at_once(server: FakeS3) -> None:
    io = opened(server)
    server.answer = lambda method, key, objects: (501, "NotImplemented") if method == "PUT" else None
    with pytest.raises(UnsupportedFeature, match=rf"{PATH}.*storage\.lock"):
        io.create(PATH, b"1")


def test_a_check_that_got_no_answer_made_nothing(server: FakeS3) -> None:
    io = opened(server)
    server.answer = lambda method, key, objects: 500 if method == "PUT" else None
    with pytest.raises(Unavailable, match="probe"):
        io.create(PATH, b"1")
    server.answer = lambda method, key, objects: None
    assert io.create(PATH, b"1") is True


def test_a_server_that_is_away_is_unavailable_and_nothing_happened(server: FakeS3) -> None:
    io = file_io_for(PATH, {**server.options, "s3.endpoint": f"http://127.0.0.1:{free_port()}"})
    calls = [lambda: io.read(PATH), lambda: io.create(PATH, b""), lambda: io.list(PATH), lambda: io.open_input(PATH)]
    for call in calls:
        with pytest.raises(Unavailable, match="snapshot-1"):
            call()


def test_secrets_travel_and_are_never_shown(server: FakeS3) -> None:
    io = opened(server)
    assert pickle.loads(pickle.dumps(io)) == io
    assert "hush" not in repr(io) + str(io)
    for wrong in ({"s3.secretkey": "hush"}, {"s3.secret-keys": "hush"}):
        with pytest.raises(InvalidOption) as raised:
            file_io_for(PATH, wrong)
        assert "hush" not in str(raised.value)
        assert "s3.secret" in str(raised.value)


def test_other_spellings_of_an_option_are_the_same_option(server: FakeS3) -> None:
    other = {"fs.s3a.endpoint": server.endpoint, "s3.access.key": "user", "s3.secret.key": "hush", "s3.region": "r"}
    assert file_io_for("s3a://b/t", other) == opened(server)


def test_without_options_the_environment_says_how_to_reach_the_store(
    server: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"ENDPOINT_URL": server.endpoint, "ACCESS_KEY_ID": "envy", "SECRET_ACCESS_KEY": "hush", "REGION": "far"}
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    io = file_io_for(PATH)
    io.write(PATH, b"1")
    assert io.read(PATH) == server.objects["t/snapshot-1"] == b"1"
    assert all("Credential=envy/" in s and "/far/s3/" in s for s in server.signatures)


def test_a_uri_without_a_bucket_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="s3://<bucket>"):
        file_io_for("s3://b", {}).read("s3:///t")


@pytest.mark.parametrize(
    ("scheme", "package", "module_name", "extra"),
    [("s3", "obstore", "object_store", "s3"), ("hdfs", "hdfs_native", "hdfs", "hdfs")],
)
def test_a_missing_extra_is_answered_with_the_pip_command(
    scheme: str, package: str, module_name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"lakelog.io.storage.{module_name}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotInstalled, match=rf"pip install 'lakelog\[{extra}\]'") as raised:
        file_io_for(f"{scheme}://place/warehouse")
    assert isinstance(raised.value, LakelogError)


def test_a_request_refused_for_its_time_names_the_clock_of_this_machine(server: FakeS3) -> None:
    io = opened(server)
    server.objects["t/snapshot-1"] = b"1"
    assert io.create("s3://b/t/other", b"1")
    server.answer = lambda method, key, objects: (403, "RequestTimeTooSkewed") if method != "HEAD" else None
    for ask in (
        lambda: io.read(PATH),
        lambda: io.list("s3://b/t"),
        lambda: io.write(PATH, b"2"),
        lambda: io.create("s3://b/t/snapshot-2", b"2"),
    ):
        with pytest.raises(Unavailable, match="the clock of this machine, .+, differs from that of the store"):
            ask()
