"""What this process runs without Spark has the results of Spark; both run the same statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import lakelog
from lakelog import Lake

_COLUMNS = (
    "(id bigint not null, name string, n int, x double, price decimal(10, 2), day date, at timestamp_ntz, "
    "ltz timestamp, ok boolean)"
)
_VALUES = (
    "(1, 'a', 10, 1.5, 1.25, date'2024-01-01', '2024-01-01 10:00:00', '2024-03-31 02:30:00', true)",
    "(2, 'b\\'s \\t', -20, 2, -3, date'2024-02-29', null, '2024-01-01 10:00:00.123456', false)",
    "(3, null, null, null, null, null, null, null, null)",
    "(4, 'ä ', 2147483647, -0.0, 99999999.99, date'0001-01-01', '2024-01-01', '2024-01-01', true)",
    "(5, '', 0, 0, 0, date'9999-12-31', '2024-01-01 10:00:00.000001', null, false)",
)
_STATEMENTS = (
    f"insert into db.t values {', '.join(_VALUES)}",
    "insert into db.t (name, id, x) values ('ab', 6, 1.1), ('aB', 7, -1.5)",
    "insert into db.t (id, name) select id, name from db.t where id = -1",
    "update db.t set name = 'new', price = 2.5, day = '2024-12-31' where id between 2 and 3",
    "update db.t as u set n = null, x = -1 where u.name = 'a' or x < -1",
    "update db.t set ok = true where not ok",
    "delete from db.t where name like 'aB%' or at = '2024-01-01 10:00:00.000001'",
)
_CONDITIONS = (
    "n > 0", "n != 10", "not (n = 10)", "n in (10, -20, 0)", "n not in (10)", "name = 'b\\'s \\t'", "name <> 'a'",
    "name like 'a%'", "x >= 0", "x = 0", "x != 1.5", "price = 1.25", "price < 0 or price is null", "day < '2024-01-02'",
    "day = date'2024-02-29'", "at = '2024-01-01 10:00:00'", "at <= '2024-01-01'", "ltz = '2024-01-01 10:00:00.123456'",
    "ltz < '2024-01-02'", "ok", "not ok", "ok = false", "name is not null and n between -20 and 10", "name >= 'ä'",
)  # fmt: skip


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Lake]:
    """A lake that has no Spark."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakelog.lake.lazy_engine.can_start_spark", lambda: False)
        with lakelog.connect(tmp_path / "local") as opened:
            yield opened
            assert not opened._engine.is_started


def rows(lake: Lake, where: str = "true") -> list[str]:
    text = "select * from db.t" if where == "true" else f"select * from db.t where {where}"
    return sorted(map(str, lake.sql(text).to_polars().rows()))


@pytest.mark.parametrize("key", ["'primary-key' = 'id', 'bucket' = '1'", "'bucket' = '-1'"])
def test_statements_have_the_results_of_spark(lake: Lake, local: Lake, key: str) -> None:
    for one in (lake, local):
        one.run(f"create table db.t {_COLUMNS} tblproperties ({key})")
    for at, statement in enumerate(_STATEMENTS):
        lake.sql(statement)
        local.sql(statement)
        assert rows(local) == rows(lake), statement
        if at == 1:
            for condition in _CONDITIONS:
                assert rows(local, condition) == rows(lake, condition), condition


def test_merges_have_the_results_of_spark(lake: Lake, local: Lake) -> None:
    news = pl.DataFrame({"id": [2, 9], "name": ["B", "N"], "n": [1, 2]}, schema_overrides={"n": pl.Int32})
    for one in (lake, local):
        one.run(f"create table db.t {_COLUMNS} tblproperties ('primary-key' = 'id', 'bucket' = '1')")
        one.sql(f"insert into db.t values {', '.join(_VALUES)}")
        table = one.table("db.t")
        table.merge(news, "t.id = s.id").when_matched_update({"name": "s.name", "n": "7"}).when_not_matched_insert(
            {"id": "s.id", "name": "'x'", "n": "s.n"}
        ).execute()
        table.merge(news.select("id").head(1), "s.id = t.id").when_matched_delete().execute()
    assert rows(local) == rows(lake)
    assert len(rows(local)) == 5
