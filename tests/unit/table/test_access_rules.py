"""A table whose catalog filters and masks rows per user is refused by every door, with its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest
from lakelog.table.open import open_by_path
from lakelog.table.system import SYSTEM_TABLES

KEY = "query-auth.enabled"


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    root = str(tmp_path / "wh")
    with connect(warehouse=root) as lake:
        lake.sql("create database d; create table d.t (id int, card string, primary key (id)) using lakelog "
                 "tblproperties ('bucket' = '1', 'log-store.enabled' = 'true')")  # fmt: skip
        lake.write(pa.table({"id": pa.array([1], pa.int32()), "card": ["1111"]}), "d.t")
        lake.table("d.t").create_branch("side", snapshot_id=1)
    file = Path(root) / "d.db/t/schema/schema-0"
    schema = json.loads(file.read_bytes())
    schema["options"][KEY] = "true"
    file.write_text(json.dumps(schema))
    return root


DOORS: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda lake, root: lake.table("d.t"),
    "branch": lambda lake, root: lake.table("d.t$branch_side"),
    "path": lambda lake, root: open_by_path(f"{root}/d.db/t", {}, "read"),
    "SELECT": lambda lake, root: lake.sql("select * from d.t where id = 1"),
    "DESCRIBE": lambda lake, root: lake.sql("describe extended d.t"),
    "DELETE": lambda lake, root: lake.sql("delete from d.t where id = 1"),
    "LIKE": lambda lake, root: lake.sql("create table d.copy like d.t"),
    "reset": lambda lake, root: lake.sql(f"alter table d.t unset tblproperties ('{KEY}')"),
    "writer": lambda lake, root: lake.write(pa.table({"id": [2]}), "d.t"),
    "lookup": lambda lake, root: lake.lookup_stats("d.t"),
    **{f"${name}": lambda lake, root, name=name: lake.table(f"d.t${name}") for name in SYSTEM_TABLES},
}


@pytest.mark.parametrize("door", DOORS)
def test_a_table_with_access_rules_is_refused(warehouse: str, door: str) -> None:
    with connect(warehouse=warehouse) as lake, pytest.raises(InvalidRequest, match=KEY):
        DOORS[door](lake, warehouse)


def test_it_exists_and_its_health_says_why(warehouse: str) -> None:
    with connect(warehouse=warehouse) as lake:
        assert lake.table_exists("d.t")
        assert any(KEY in finding.reason for finding in lake.health("d.t").findings)


def test_nobody_makes_such_a_table_or_changes_the_rule(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path / "wh")) as lake:
        with pytest.raises(InvalidRequest, match=KEY):
            lake.sql(f"create table t (id int) using lakelog tblproperties ('{KEY}' = 'true')")
        lake.sql("create table t (id int) using lakelog")
        with pytest.raises(InvalidRequest, match=KEY):
            lake.sql(f"alter table t set tblproperties ('{KEY}' = 'true')")
