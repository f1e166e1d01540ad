"""Views of one table that follow from its changed rows alone: which they are, and that their sums are exact."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidRequest
from lakelog.lake import Lake
from lakelog.sql.views import sources as sources_module
from lakelog.sql.views.plan import plan_view
from lakelog.sql.views.refresh import ViewRefresher
from lakelog.sql.views.sources import SourceReads
from lakelog.table.views.definition import ViewDefinition


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakelog.connect(str(tmp_path)) as found:
        found.sql("create table db.t (id int, g string, n bigint, d decimal(20, 2), x double, primary key (id))")
        found.sql("create table db.u (f double, v int, primary key (f))")
        put(found, {1: ("a", 1, "1.10"), 2: ("a", 2, "2.25"), 3: ("b", 3, None)})
        yield found


def put(lake: Lake, rows: dict[int, tuple[str | None, int | None, str | None]], kind: str = "+I") -> None:
    columns = list(zip(*rows.values(), strict=True))
    decimals = [None if d is None else Decimal(d) for d in columns[2]]
    values = {"id": pa.array(list(rows), pa.int32()), "g": pa.array(columns[0], pa.string()),
              "n": pa.array(columns[1], pa.int64()), "d": pa.array(decimals, pa.decimal128(20, 2)),
              "x": pa.array([None] * len(rows), pa.float64())}  # fmt: skip
    lake.write(pa.table({**values, "_row_kind": [kind] * len(rows)}), "db.t")


def rows(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    found = lake.table(name).scan().to_arrow()
    kept = found.drop_columns([c for c in found.column_names if c == "_key"])
    return sorted((tuple(row.values()) for row in kept.to_pylist()), key=repr)


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("select id, n from db.t where n > 1", "rows"),
        ("select id, case when n > 1 then 'x' else g end as c from db.t", "rows"),
        ("select g, count(*) as c, sum(n) as s, avg(d) as a from db.t group by g having sum(n) > 1", "sums"),
        ("select count(*) as c, sum(d) as s from db.t", "sums"),
        ("select distinct g, n from db.t", "sums"),
        ("select g, sum(n) filter (where n > 1) as s from db.t group by 1", "sums"),
        ("select g, sum(x) as s from db.t group by g", "touched"),
        ("select g, avg(n) as s from db.t group by g", "touched"),
        ("select g, max(n) as s from db.t group by g", "touched"),
        ("select g, count(distinct n) as s from db.t group by g", "touched"),
        ("select g, sum(distinct n) as s from db.t group by g", "touched"),
        ("select x, count(*) as c from db.t group by x", "touched"),
        ("select f, v from db.u", "touched"),
        ("select t.id, u.f from db.t join db.u on t.n = u.v", "touched"),
        ("select g, count(*) as c from (select g from db.t) t group by g", "touched"),
        ("select id, row_number() over (order by id) as r from db.t", "touched"),
    ],
)
def test_what_follows_from_the_changed_rows_alone(lake: Lake, query: str, way: str) -> None:
    session = lake._session
    definition = ViewDefinition("v", query, session.current_catalog, "db", "UTC", (), ())
    by = plan_view(session, definition).local.by_changes
    assert way == ("touched" if by is None else "rows" if by.rows is None else "sums")


def test_sums_and_averages_stay_exact_after_any_changes(lake: Lake) -> None:
    lake.views.create("db.v", "select g, count(*) as c, count(d) as k, sum(d) as s, avg(d) as a, sum(n) as t "
                              "from db.t group by g having count(*) > 0")  # fmt: skip
    draw, now = random.Random(5), {1: ("a", 1, "1.10"), 2: ("a", 2, "2.25"), 3: ("b", 3, None)}
    refresher = ViewRefresher(lake._session, lake._session.identifier("db.v"), str(lake.warehouse))
    for _ in range(15):
        changed = {
            i: (draw.choice(["a", "b", None]), draw.choice([None, -(2**40), 7, 2**62]),
                draw.choice([None, "0.01", "-999999999999999999.99", "123456.78"]))
            for i in draw.sample(range(12), 4)
        }  # fmt: skip
        changed = {i: (g, n if n != 2**62 or i == 0 else 1, d) for i, (g, n, d) in changed.items()}
        gone = {i: now[i] for i in draw.sample(list(now), min(2, len(now))) if i not in changed}
        put(lake, changed)
        now.update(changed)
        if gone:
            put(lake, gone, "-D")
            now = {i: row for i, row in now.items() if i not in gone}
        refresher.refresh()
        assert rows(lake, "db.v") == _expected(now)
    refresher.close()
    assert lake.views.rebuild("db.v").rows == 0


def _expected(now: dict[int, tuple[str | None, int | None, str | None]]) -> list[tuple[Any, ...]]:
    out = []
    for g in {row[0] for row in now.values()}:
        here = [row for row in now.values() if row[0] == g]
        decimals, numbers = [Decimal(d) for _, _, d in here if d is not None], [n for _, n, _ in here if n is not None]
        total = sum(decimals, Decimal(0)) if decimals else None
        average = None if total is None else (total / len(decimals)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
        out.append((g, len(here), len(decimals), total, average, sum(numbers) if numbers else None))
    return sorted(out, key=repr)


def test_a_sum_that_does_not_fit_is_an_error_until_it_fits(lake: Lake) -> None:
    lake.views.create("db.v", "select g, sum(n) as s from db.t group by g")
    put(lake, {4: ("a", 2**62, None), 5: ("a", 2**62, None)})
    with pytest.raises(InvalidRequest, match="cannot be computed"):
        lake.views.refresh("db.v")
    assert rows(lake, "db.v") == [("a", 3), ("b", 3)]
    put(lake, {5: ("a", 2**62, None)}, "-D")
    lake.views.refresh("db.v")
    assert rows(lake, "db.v") == [("a", 2**62 + 3), ("b", 3)]


def test_one_row_without_groups_stays_when_the_source_is_empty(lake: Lake) -> None:
    lake.views.create("db.v", "select count(*) as c, sum(n) as s from db.t")
    assert rows(lake, "db.v") == [(3, 6)]
    lake.table("db.t").truncate()
    lake.views.refresh("db.v")
    assert rows(lake, "db.v") == [(0, None)]
    put(lake, {9: ("z", 5, None)})
    lake.views.refresh("db.v")
    assert rows(lake, "db.v") == [(1, 5)]


def test_views_that_are_refreshed_together_read_the_changes_of_a_source_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.views.create("db.v", "select id, n from db.t where n > 1")
    lake.views.create("db.w", "select g, sum(n) as s from db.t group by g")
    reads = SourceReads(lake._session)
    names = [lake._session.identifier(name) for name in ("db.v", "db.w")]
    refreshers = [ViewRefresher(lake._session, name, str(lake.warehouse), reads) for name in names]
    asked = list[tuple[str, ...]]()
    real = sources_module.state_changes

    def counted(*given: Any, columns: Any) -> Any:
        asked.append(tuple(columns))
        return real(*given, columns=columns)

    monkeypatch.setattr(sources_module, "state_changes", counted)
    for number in (10, 20):
        put(lake, {1: ("a", number, None)})
        reads.forget()
        for refresher in refreshers:
            refresher.refresh()
        put(lake, {2: ("b", number, None)})  # later than what this step has seen
        assert all(refresher.refresh().is_current for refresher in refreshers)
    assert asked == [("id", "n"), ("id", "g", "n"), ("id", "g", "n")], "the second step knows what both views use"
    reads.forget()
    for refresher in refreshers:
        refresher.refresh()
        refresher.close()
    assert rows(lake, "db.v") == [(1, 20), (2, 20), (3, 3)]
    assert rows(lake, "db.w") == [("a", 20), ("b", 23)]
