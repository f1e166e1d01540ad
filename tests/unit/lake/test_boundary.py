"""Whatever a caller gives, and whatever fails inside: what comes out of the public interface is an error of lakelog."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from polars.exceptions import PanicException

from lakelog import connect, open_table
from lakelog.errors import InternalError, InvalidRequest, LakelogError
from lakelog.filestore.store import FileStore
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.options.boundary import Public, guarded


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.chdir(tmp_path)
    with connect(warehouse=str(tmp_path / "wh")) as made:
        made.sql("create table t (id int, v string, primary key (id)) using lakelog "
                 "tblproperties ('bucket' = '1', 'log-store.enabled' = 'true')")  # fmt: skip
        made.write(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}), "t")
        yield made


class Odd:
    """A value of a type that no method takes."""


_STARTS_SPARK = ("spark", "attach", "to_spark", "read_stream", "write_stream", "read_realtime", "write_realtime")
_STARTS_SPARK += ("lookup_join", "executor")
_ENDLESS = ("mirror", "follow", "close", "merge")


def _methods(kind: type) -> list[tuple[type, str, str]]:
    """Every public method, with each of its parameters."""
    found = []
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in (*_STARTS_SPARK, *_ENDLESS):
            found += [(kind, name, one) for one in list(inspect.signature(method).parameters)[1:]]
    return found


def test_an_unknown_end_is_refused(lake: Lake) -> None:
    lake.sql("create table l (id int, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    for call in (lambda: lake.table("l").tail(stop="end"), lambda: next(lake.replicate("l", "other", stop="end"))):
        with pytest.raises(InvalidRequest, match="stop='end' is not known"):
            call()


@pytest.mark.parametrize(("kind", "name", "parameter"), [*_methods(Table), *_methods(Lake)])
def test_an_argument_of_a_wrong_type_is_an_error_of_ours(lake: Lake, kind: type, name: str, parameter: str) -> None:
    target: Any = lake if kind is Lake else lake.table("t")
    parameters = inspect.signature(getattr(target, name)).parameters
    needed = {p.name: "t" for p in parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
    odds: list[Any] = [Odd(), functools.reduce(lambda inner, _: [inner], range(5_000), []), ""]
    for odd in odds:
        try:
            if parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
                result = getattr(target, name)(odd)
            else:
                result = getattr(target, name)(**{**needed, parameter: odd})
            if isinstance(result, Iterator):
                next(result, None)
        except LakelogError as why:
            assert not isinstance(why, InternalError), str(why)


CALLS: dict[str, tuple[Callable[[Lake], Any], str]] = {
    "columns": (lambda lake: lake.table("t").scan(columns=5), "columns=5"),
    "text": (lambda lake: lake.table("t").scan(columns="id"), "columns='id'"),
    "name": (lambda lake: lake.table(5), "name=5"),
    "not Unicode": (lambda lake: lake.table("t").scan(tag="\ud800"), r"ud800.*not Unicode"),
    "unknown": (lambda lake: lake.table("t").scan(colums=["id"]), "unexpected keyword argument 'colums'"),
    "inner": (lambda lake: list(lake.table("t").stream_plan(from_snapshot="a")), "stream_plan.*from_snapshot"),
    "scan": (lambda lake: lake.table("t").scan().limit("a"), r"limit\(\): argument 'rows' is 'a' of type str"),
    "bucket": (lambda lake: next(lake.table("t").tail({7: 0}, stop="latest")), "buckets are 0"),
    "change": (lambda lake: lake.table("t").alter("x"), "argument 'changes'"),
    "path": (lambda lake: open_table("/x.db/t", storage_options=5), "argument 'storage_options' is 5"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_named(lake: Lake, name: str) -> None:
    call, text = CALLS[name]
    with pytest.raises(InvalidRequest, match=text):
        call(lake)


@pytest.mark.parametrize(
    "raw",
    [RecursionError("x"), TypeError("x"), AttributeError("x"), KeyError("x"), MemoryError(), pa.ArrowInvalid("x"),
     PanicException("x"), pa.ArrowNotImplementedError("x"), ZeroDivisionError("x"),
     UnicodeDecodeError("utf-8", b"x", 0, 1, "x")],
    ids=lambda raw: type(raw).__name__,
)  # fmt: skip
def test_what_nobody_has_foreseen_asks_for_a_report(lake: Lake, monkeypatch: pytest.MonkeyPatch, raw: Any) -> None:
    def fails(*args: Any, **more: Any) -> Any:
        raise raw

    fails.__code__ = fails.__code__.replace(co_filename=inspect.getfile(FileStore))
    monkeypatch.setattr(FileStore, "plan", fails)
    for call in (lambda: lake.table("t").scan().to_arrow(), lambda: next(lake.table("t").scan().to_batches())):
        with pytest.raises(InternalError, match="please report") as found:
            call()
        assert found.value.__cause__ is raw or found.value.__cause__.__cause__ is raw


def test_an_error_of_the_callers_own_code_is_theirs(lake: Lake) -> None:
    def progress(done: int, of: int) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        lake.table("t").compact(progress=progress)


def test_a_guarded_generator_is_closed_with_its_user() -> None:
    ended = []

    @guarded
    def items() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append(True)

    made = items()
    assert next(made) == 1
    made.close()  # type: ignore[attr-defined]
    assert ended == [True]


def test_attributes_that_are_missing_stay_missing() -> None:
    class Thing(Public):
        def method(self) -> int:
            return 1

    assert not hasattr(Thing(), "absent")
    assert Thing().method() == 1
