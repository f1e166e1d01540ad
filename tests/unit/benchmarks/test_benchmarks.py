"""A smoke test of each part of the benchmarks: the input of workload W, its tables, the page of results, CPU time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def sums(rows: pl.DataFrame) -> dict[str, Any]:
    out = {"count": rows.height, "ids": rows["id"].sum(), "groups": rows["grp"].cast(pl.Int64).sum()}
    out |= {"amounts": rows["amount"].sum()}
    return out | {f"{name}s": rows[name].str.len_bytes().sum() for name in ("name", "payload")}


def test_the_input_of_the_workload_has_updates_new_keys_and_deletes_and_knows_its_answers(tmp_path: Path) -> None:
    from workload_input import Shape, make_input

    made = make_input(Shape(4_000, 400, 3), tmp_path)
    truth, parts = json.loads((made / "truth.json").read_text()), sorted(made.glob("batch-*.parquet"))
    base = pl.read_parquet(made / "base").with_columns(deleted=pl.lit(False), batch=pl.lit(0))
    rows = pl.concat([base, *(pl.read_parquet(part).with_columns(batch=pl.lit(n)) for n, part in enumerate(parts, 1))])
    live = rows.unique("id", keep="last", maintain_order=True).filter(~pl.col("deleted"))
    low, high = truth["range"]
    assert truth["base"] == sums(base)
    assert truth["live"] == sums(live)
    assert truth["in_range"] == sums(live.filter(pl.col("id").is_between(low, high)))
    assert truth["appended"] == sums(rows)
    assert truth["undeleted"] == sums(rows.filter(~pl.col("deleted")).unique("id", keep="last", maintain_order=True))
    assert all(live.filter(pl.col("id") == p["id"])["amount"].to_list() == [p["amount"]] for p in truth["points"])
    last = rows.filter(pl.col("batch") == 3)
    assert (last["id"].n_unique(), last["deleted"].sum()) == (400, 20)
    assert last.filter(~pl.col("id").is_in(rows.filter(pl.col("batch") < 3)["id"].implode())).height == 100


def test_the_page_of_results_has_each_figure_and_the_machine(tmp_path: Path) -> None:
    from results import RESULTS, page, write_results

    figures = {"arrow": {"rows_s": 123456, "write_cpu_us": {"driver": 0.5, "all": 9.25}}}
    steps = {"upsert": {"wall": 2.0, "cpu": 1.0}}
    one = {"steps": steps, "disk": {}, "peak_mb": 1, "peak_shared_once_mb": 1, "checks": 1, "wrong": []}
    write_results(tmp_path, {"throughput embedded": figures, "workload": {"parquet": one, "lakelog": one}}, busy=99.0)
    found = json.loads((tmp_path / "throughput-embedded.json").read_text())
    assert found["figures"] == figures
    assert {"date", "commit", "cores", "busy_cores", "python", "lakelog"} <= set(found["machine"])
    text = (tmp_path / "index.md").read_text()
    assert "| arrow | 123,456 |" in text and "| arrow | 0.5 | 9.25 |" in text
    assert "| upsert | 2 / 1 | 2 / 1 (x1.00, 1.00) |" in text
    assert "**loaded** (99.0 cores busy before)" in text
    assert (RESULTS / "index.md").read_text(encoding="utf-8") == page(RESULTS)


@pytest.mark.parametrize("name", ["q1", "q2", "q3", "q4", "q5", "q8"])
def test_views_of_nexmark_have_the_rows_of_the_statement_for_the_other_engine(name: str) -> None:
    """DuckDB computes the statement over all rows; the views were refreshed after each part."""
    import duckdb
    from nexmark import _by_key, _same, lakelog_work
    from nexmark_events import events
    from nexmark_queries import QUERIES

    query = QUERIES[name]
    parts = [events(first, first + 1_500, query.sources) for first in range(0, 4_500, 1_500)]
    work = lakelog_work(query, parts)
    with duckdb.connect() as db:
        for source in query.sources:
            for part in parts:
                db.register("part", part[source])
                known = db.execute(f"select count(*) from duckdb_tables() where table_name = '{source}'").fetchone()
                db.execute(f"insert into {source} from part" if known[0] else f"create table {source} as from part")
        rows = db.sql(query.flink.partition(" on conflict")[0].replace("`", '"')).to_arrow_table()
    expected = _by_key(query, rows.rename_columns(list(query.columns)).to_pylist())
    assert work.result.keys() == expected.keys() and len(expected) > 0
    assert all(_same(row, expected[key]) for key, row in work.result.items())
