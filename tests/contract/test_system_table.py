"""What every system table promises: its columns, whatever is asked of it, on every kind of table."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lakelog
from lakelog.filestore.skipping.predicate import Compare, IsNull
from lakelog.table.system import SYSTEM_TABLES

DATA = Path(__file__).parent.parent / "golden" / "data"
TABLES = ("pk_dedup", "pk_partitioned", "append_unaware", "branch_tag", "changelog_lookup", "evolution_pk")


OF_TABLES = sorted(set(SYSTEM_TABLES) - {"view"})
"""System tables that every table has; that of materialized views: tests/unit/table/test_view_state.py."""


def view(table: str, name: str) -> lakelog.Table:
    return lakelog.connect(warehouse=str(DATA / table)).table(f"g.{table}${name}")


@pytest.mark.parametrize("name", OF_TABLES)
@pytest.mark.parametrize("table", TABLES)
def test_rows_have_the_columns_that_are_promised(table: str, name: str) -> None:
    scan = view(table, name).scan()
    rows = scan.to_arrow()
    assert rows.schema == scan.schema
    rows.validate(full=True)


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_choice_of_columns_and_a_filter_give_the_same_rows(name: str) -> None:
    scan = view("branch_tag", name).scan()
    whole = scan.to_arrow()
    last = whole.column_names[-1]
    assert scan.select([last]).to_arrow() == whole.select([last])
    for predicate in (IsNull(whole.column_names[0]), IsNull(last, expected=False)):
        kept = whole.filter(predicate.to_arrow(whole.schema))
        assert scan.where(predicate).select([last]).to_arrow() == kept.select([last])


@pytest.mark.parametrize("name", OF_TABLES)
def test_it_travels_to_executors(name: str) -> None:
    scan = view("branch_tag", name).scan()
    here = pickle.loads(pickle.dumps(scan))
    splits = pickle.loads(pickle.dumps(list(scan.plan())))
    assert [b for s in splits for b in here.read(s)] == list(scan.to_batches())


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_table_without_snapshots_is_no_error(name: str, tmp_path: Path) -> None:
    with lakelog.connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database db; create table db.t (id int, primary key (id)) using lakelog")
        found = lake.table(f"db.t${name}").scan().to_arrow()
    there = {"options", "schemas", "aggregation_fields"}
    assert (found.num_rows > 0) == (name in there)


def test_a_number_is_compared_as_a_number() -> None:
    found = view("pk_dedup", "snapshots").scan(columns=["commit_kind"], filter="snapshot_id >= 2")
    assert found.to_arrow().num_rows == 2
    assert view("pk_dedup", "snapshots").scan().where(Compare("snapshot_id", "=", 9)).to_arrow().num_rows == 0
