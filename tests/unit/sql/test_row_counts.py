"""The number of changed rows, as statements and Python calls return it without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from limits import limit

LOGGED = {"log-store.enabled": True, "log.changelog-mode": "all"}
TABLES: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": "id", "options": {"bucket": 2}},
    "keyed, every change in a log": {"primary_key": "id", "options": {"bucket": 2, **LOGGED}},
    "keyed, every change in a changelog": {"primary_key": "id", "options": {"changelog-producer": "input"}},
    "without a key": {},
    "without a key, in two buckets": {"options": {"bucket": 2, "bucket-key": "id", "deletion-vectors.enabled": True}},
    "without a key, its changes in a log": {"options": {"log-store.enabled": True, "log.content": "changes"}},
    "partitioned": {"partition_by": "day"},
}


def counts(updated: int = 0, deleted: int | None = 0, inserted: int = 0) -> dict[str, int | None]:
    return {
        "num_affected_rows": None if deleted is None else updated + deleted + inserted,
        "num_updated_rows": updated,
        "num_deleted_rows": deleted,
        "num_inserted_rows": inserted,
    }


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    with lakelog.connect(tmp_path / "warehouse") as opened:
        yield opened
        assert not opened._engine.is_started


def result(lake: Lake, text: str) -> dict[str, int | None]:
    (row,) = lake.sql(text).to_arrow().to_pylist()
    return row


@pytest.mark.parametrize("kind", TABLES)
def test_a_statement_returns_the_number_of_changed_rows(lake: Lake, kind: str) -> None:
    given = {"primary_key": None, **TABLES[kind]}
    table = lake.create_table("db.t", {"id": "bigint not null", "n": "int", "day": "string not null"}, **given)
    assert result(lake, "insert into db.t values (1, 10, 'a'), (2, 20, 'a')") == counts(inserted=2)
    assert result(lake, "insert into db.t values (3, 30, 'b'), (4, null, 'b')") == counts(inserted=2)
    assert result(lake, "update db.t set n = 7 where n >= 20") == counts(updated=2)
    assert table.update({"n": "7"}, "n = 7") == counts(updated=2), "equal values are written again"
    assert result(lake, "delete from db.t where n = 7 and id = 3") == counts(deleted=1)
    for text in ("update db.t set n = 1 where id = 99", "delete from db.t where id = 99"):
        assert result(lake, text) == counts()
    assert table.update({"n": "0"}) == counts(updated=3)
    assert table.delete("id = 1") == counts(deleted=1)
    assert table.delete() == counts(deleted=2)
    assert result(lake, "delete from db.t") == table.delete("id = 1") == counts()
    assert table.scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("log", [{}, LOGGED])
def test_a_merge_counts_each_kind_of_change(lake: Lake, log: dict[str, Any]) -> None:
    table = lake.create_table("db.t", {"id": "bigint", "n": "int"}, primary_key="id", options=log)
    assert lake.write(pa.table({"id": [1, 2, 3], "n": pa.array([1, 2, 3], pa.int32())}), "db.t") == counts(inserted=3)
    new = pa.table({"id": [2, 3, 4, 5, 6], "n": pa.array([0] * 5, pa.int32())})
    merge = table.merge(new, "t.id = s.id")
    assert merge.when_matched_update({"n": "s.n"}).when_not_matched_insert_all().execute() == counts(2, 0, 3)
    assert table.merge(new, "t.id = s.id").when_matched_delete().execute() == counts(deleted=5)
    assert table.merge(new, "t.id = s.id").when_matched_update_all().execute() == counts()


def test_a_writer_counts_what_it_has_committed_by_row_kind(lake: Lake) -> None:
    table = lake.create_table("db.t", {"id": "bigint", "n": "int"}, primary_key="id", options={"bucket": 2})
    kinds = ["+I", "-U", "+U", "-D", "+I"]
    rows = pa.table({"id": [1, 2, 2, 3, 4], "n": pa.array([1] * 5, pa.int32()), "_row_kind": kinds})
    with table.writer() as writer:
        assert writer.commit() == counts(), "no row yet"
        writer.write(rows)
        writer.write(rows.slice(0, 1))
        assert writer.counts == counts()
        assert writer.commit() == counts(updated=1, deleted=1, inserted=3)
        writer.write(rows.slice(0, 1))
        writer.abort()
        writer.write(rows.slice(4))
    assert writer.counts == counts(updated=1, deleted=1, inserted=4)


@pytest.mark.parametrize("key", [None, "id"])
def test_an_overwrite_counts_its_new_rows_only(lake: Lake, key: str | None) -> None:
    table = lake.create_table("db.t", {"id": "bigint", "n": "int"}, primary_key=key)
    lake.write(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}), "db.t")
    with table.writer(overwrite=True) as writer:
        writer.write(pa.table({"id": [7, 8], "n": [1, 2]}))
        assert writer.counts == counts(deleted=None)
    assert writer.counts == counts(deleted=None, inserted=2)


@pytest.mark.parametrize(
    "options",
    [{}, {"merge-engine": "first-row"}, {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}],
)
def test_an_insert_counts_the_rows_it_writes_whatever_they_are_merged_to(lake: Lake, options: dict[str, str]) -> None:
    lake.create_table("db.t", {"id": "bigint", "n": "int"}, primary_key="id", options={"bucket": 1, **options})
    lake.sql("insert into db.t values (1, 1)")
    assert result(lake, "insert into db.t values (1, 5), (1, 6), (2, 5)") == counts(inserted=3)


def test_whole_partitions_are_counted_before_they_are_removed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"id": "bigint", "day": "string"}
    table = lake.create_table("db.t", columns, primary_key=["day", "id"], partition_by="day", options={"bucket": 1})

    def fill() -> None:
        for ids in ([1, 2, 3], [2, 3, 4]):  # two files with the same keys
            for day in ("a", "b", "c"):
                lake.write(pa.table({"id": ids, "day": [day] * 3}), "db.t")
        lake.write(pa.table({"id": [1], "day": ["b"], "_row_kind": ["-D"]}), "db.t")

    fill()
    assert table.delete("day = 'a'") == counts(deleted=4)
    assert table.delete("day = 'a'") == counts()
    assert table.delete() == counts(deleted=3 + 4)
    fill()
    limit(monkeypatch, counted_rows=10)
    assert table.delete("day in ('a', 'b')") == counts(deleted=None), "too many overlapping rows to read"
    table.compact(full=True)
    limit(monkeypatch, counted_rows=0)
    shown = lake.sql("delete from db.t where day = 'c'")
    assert shown.to_arrow().to_pylist() == [counts(deleted=4)], "metadata counts files that do not overlap"
    assert repr(shown).splitlines()[1] == "|num_affected_rows|num_updated_rows|num_deleted_rows|num_inserted_rows|"
