"""The rows of workload W and the answers that are kept with them (``benchmarks/workload_input.py``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        from workload_input import Shape, make_input

        yield make_input(Shape(4_000, 400, 3), tmp_path_factory.mktemp("workload"))


@pytest.fixture(scope="module")
def truth(made: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((made / "truth.json").read_text())
    return found


def written(made: Path) -> pl.DataFrame:
    """Every row in order, with ``deleted`` (false in the base) and ``batch`` (0 is the base)."""
    base = pl.read_parquet(made / "base").with_columns(deleted=pl.lit(False), batch=pl.lit(0))
    batches = [
        pl.read_parquet(path).with_columns(batch=pl.lit(number))
        for number, path in enumerate(sorted(made.glob("batch-*.parquet")), 1)
    ]
    return pl.concat([base, *batches])


def sums(rows: pl.DataFrame) -> dict[str, Any]:
    return {
        "count": rows.height,
        "ids": rows["id"].sum(),
        "groups": rows["grp"].cast(pl.Int64).sum(),
        "amounts": rows["amount"].sum(),
        "names": rows["name"].str.len_bytes().sum(),
        "payloads": rows["payload"].str.len_bytes().sum(),
    }


def test_the_truth_is_what_the_last_row_of_each_key_says(made: Path, truth: dict[str, Any]) -> None:
    rows = written(made)
    last = rows.unique("id", keep="last", maintain_order=True)
    live = last.filter(~pl.col("deleted"))
    low, high = truth["range"]
    assert truth["base"] == sums(rows.filter(pl.col("batch") == 0))
    assert truth["live"] == sums(live)
    assert truth["in_range"] == sums(live.filter(pl.col("id").is_between(low, high)))
    assert truth["appended"] == sums(rows)
    kept = rows.filter(~pl.col("deleted")).unique("id", keep="last", maintain_order=True)
    assert truth["undeleted"] == sums(kept)
    amounts = dict(live.select("id", "amount").iter_rows())
    assert [p["amount"] for p in truth["points"]] == [amounts[p["id"]] for p in truth["points"]]


def test_a_batch_is_updates_new_keys_and_deletes_each_key_once(made: Path) -> None:
    rows = written(made)
    for batch in (1, 2, 3):
        of_it = rows.filter(pl.col("batch") == batch)
        before = rows.filter(pl.col("batch") < batch)["id"]
        assert of_it["id"].n_unique() == of_it.height == 400
        assert of_it["deleted"].sum() == 20
        assert of_it.filter(~pl.col("id").is_in(before.implode())).height == 100
        assert of_it.filter("deleted")["id"].is_in(before.implode()).all()


def test_the_input_is_made_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from workload_input import Shape, make_input

    stamps = {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")}
    assert make_input(Shape(4_000, 400, 3), made.parent) == made
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")} == stamps
