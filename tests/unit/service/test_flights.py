"""The flights as a change stream: what a consumer of the demo may rely on."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from lakelog.service.demo import flights

FLIGHTS, CANCELLED, DEPARTED, ARRIVED = 336_776, 8_255, 328_521, 327_346


@pytest.fixture(scope="module")
def changes() -> pl.DataFrame:
    return pl.from_arrow(flights.changes()).with_row_index("position")


def test_every_flight_is_inserted_once_and_every_update_has_both_halves(changes: pl.DataFrame) -> None:
    counts = dict(changes.group_by("_row_kind").len().iter_rows())
    assert counts == {"+I": FLIGHTS, "-U": DEPARTED + ARRIVED, "+U": DEPARTED + ARRIVED, "-D": CANCELLED}


def test_the_columns_are_those_of_the_declared_schema() -> None:
    assert flights.changes().schema.equals(flights.CHANGES_SCHEMA)
    assert flights.changes().num_rows == 1_656_765


def test_the_fold_leaves_every_flight_that_was_not_cancelled(changes: pl.DataFrame) -> None:
    last = changes.group_by("flight_id").last()
    left = last.filter(pl.col("_row_kind") != "-D")
    assert left.height == FLIGHTS - CANCELLED
    assert dict(left.group_by("status").len().iter_rows()) == {"arrived": ARRIVED, "departed": DEPARTED - ARRIVED}
    arrived = left.filter(pl.col("status") == "arrived")
    assert arrived.select("departed", "arrived", "dep_delay", "arr_delay").null_count().row(0) == (0, 0, 0, 0)


@pytest.mark.slow
def test_an_update_before_directly_precedes_its_update_after_with_the_old_row(
    changes: pl.DataFrame,
) -> None:
    columns = flights.FLIGHTS_SCHEMA.names
    later = changes.filter(pl.col("_row_kind") == "-U")
    partner = changes.join(later.select(position=pl.col("position") + 1), on="position", how="semi")
    assert (partner["_row_kind"] == "+U").all()
    assert (partner["flight_id"] == later["flight_id"]).all()
    previous = changes.with_columns(pl.col(columns[1:]).shift(1).over("flight_id").name.prefix("previous_"))
    taken_back = previous.filter(pl.col("_row_kind").is_in(["-U", "-D"]))
    for name in columns[1:]:
        assert taken_back[name].equals(taken_back[f"previous_{name}"], check_names=False, null_equal=True), name


def test_the_changes_of_one_flight_are_in_order(changes: pl.DataFrame) -> None:
    kinds = changes.group_by("flight_id", maintain_order=True).agg(pl.col("_row_kind").str.join(" "))
    assert set(kinds["_row_kind"]) == {"+I -D", "+I -U +U", "+I -U +U -U +U"}


def test_a_flight_with_its_delays_becomes_its_five_changes() -> None:
    due = datetime(2013, 1, 1, 10, 15)
    one = pl.DataFrame(
        {
            "flight_id": [7], "carrier": ["UA"], "flight": [1545], "origin": ["EWR"], "dest": ["IAH"],
            "scheduled": [due], "departed": [due + timedelta(minutes=2)], "arrived": [due + timedelta(minutes=229)],
            "dep_delay": [2.0], "arr_delay": [11.0],
        }
    ).with_columns(pl.col("scheduled", "departed", "arrived").dt.replace_time_zone("UTC"))  # fmt: skip
    made = flights.compute_changes(one)
    assert made["_row_kind"].to_pylist() == ["+I", "-U", "+U", "-U", "+U"]
    assert made["status"].to_pylist() == ["scheduled", "scheduled", "departed", "departed", "arrived"]
    assert made["arr_delay"].to_pylist() == [None, None, None, None, 11.0]
    assert made["dep_delay"].to_pylist() == [None, None, 2.0, 2.0, 2.0]
