"""Names that users give never lead out of a table."""

from __future__ import annotations

import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest


def test_a_name_does_not_lead_to_another_table(tmp_path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int); create table d.u (id int)")
        table, other = lake.table("d.t"), tmp_path / "d.db" / "u"
        table.create_branch("x")
        before = sorted(other.rglob("*"))
        name = "x/../../../u"
        for reach in (
            lambda: table.delete_branch(name),
            lambda: table.fast_forward(name),
            lambda: table.branch(name),
            lambda: table.delete_tag(name),
            lambda: table.scan(tag=name),
            lambda: table.logical.store.consumers.delete(name),
            lambda: table.logical.store.consumers.position(name),
        ):
            with pytest.raises(InvalidRequest, match="a file name has no '/'"):
                reach()
        assert sorted(other.rglob("*")) == before
