"""A value of a wrong Python type is an error that names method, parameter and value, before anything happens."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from lakelog.errors import InvalidRequest
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from log_tables import make


class Odd:
    """A value of no type that a method takes."""


PARAMETERS = [
    (owner, method, parameter.name)
    for owner in (Lake, Table)
    for method in dir(owner)
    if not method.startswith("_") and inspect.isfunction(getattr(owner, method))
    for parameter in inspect.signature(getattr(owner, method)).parameters.values()
    if str(parameter.annotation) in ("str", "int", "str | None", "int | None", "bool", "str | timedelta | None",
                                     "Sequence[str] | None", "Mapping[str, str] | None")
]  # fmt: skip


@pytest.mark.parametrize(("owner", "method", "name"), PARAMETERS)
def test_an_argument_of_a_wrong_type_is_named(tmp_path: Path, owner: type, method: str, name: str) -> None:
    called = getattr(owner, method)
    others = inspect.signature(called).parameters.values()
    given = {p.name: "a" for p in others if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    subject = make(tmp_path) if owner is Table else Lake(str(tmp_path))
    with pytest.raises(InvalidRequest, match=rf"{owner.__name__}\.{method}\(\w+="):
        called(**{**given, "self": subject, name: Odd()})


@pytest.mark.parametrize(("owner", "method", "name"), PARAMETERS)
@pytest.mark.parametrize("value", ["a\ud800", ["\ud800"], {"\ud800": "a"}, {"a": "\ud800"}], ids=ascii)
def test_text_that_no_file_can_hold_is_named(
    tmp_path: Path, owner: type, method: str, name: str, value: object
) -> None:
    called = getattr(owner, method)
    others = inspect.signature(called).parameters.values()
    given = {p.name: "a" for p in others if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    subject = make(tmp_path) if owner is Table else Lake(str(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequest, match=rf"{owner.__name__}\.{method}\(\): .*ud800.* is not Unicode"):
        called(**{**given, "self": subject, name: value})
    assert sorted(tmp_path.rglob("*")) == before


def test_numbers_of_milliseconds_are_no_duration_and_an_unknown_name_is_told(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(
        InvalidRequest, match=r"older_than=1795886421577\): it is of type int. Pass text or a timedelta"
    ):
        table.remove_orphan_files(dry_run=True, older_than=1795886421577)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="unexpected keyword argument 'older'"):
        table.remove_orphan_files(older="1 d")  # type: ignore[call-arg]
