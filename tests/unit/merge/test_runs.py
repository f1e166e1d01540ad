"""The merge of sorted runs: order, newest row, cuts, memory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.merge import merge_engine
from lakelog.merge.runs import fold_rows, merge_runs
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

COLUMNS = [("k", parse_type("BIGINT NOT NULL"), None), ("v", parse_type("STRING"), None)]
ENGINE = merge_engine("deduplicate", new_schema(COLUMNS, ["k"]))


def run_of(keys: pa.Array, sequences: Sequence[int], kinds: Sequence[int] | None = None) -> pa.Table:
    return pa.table(
        {
            "k": keys,
            "_SEQUENCE_NUMBER": pa.array(sequences, pa.int64()),
            "_VALUE_KIND": pa.array(kinds or [0] * len(keys), pa.int8()),
            "v": pa.array([f"v{s}" for s in sequences]),
        }
    )


def merged(runs: Sequence[pa.Table], keys: Sequence[str] = ("k",), batch_rows: int = 2) -> pa.Table:
    streams = [iter(run.to_batches(max_chunksize=batch_rows)) for run in runs]
    return pa.Table.from_batches(merge_runs(streams, keys, ENGINE), runs[0].schema)


def test_among_equal_sequence_numbers_the_later_run_wins() -> None:
    one, two = run_of(pa.array([1]), [7]), run_of(pa.array([1]), [7])
    two = two.set_column(3, "v", pa.array(["later"]))
    assert merged([one, two]).column("v").to_pylist() == ["later"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-3, 0, 7], pa.int8()),
        pa.array([False, True], pa.bool_()),
        pa.array(["", "Z", "a", "é", "日", "\U0001f600"]),
        pa.array([b"", b"\x00", b"\x00\x01", b"\x7f", b"\x80"], pa.binary()),
        pa.array([Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")], pa.decimal128(9, 2)),
        pa.array([Decimal("-" + "9" * 30), Decimal("1"), Decimal("9" * 30)], pa.decimal128(38, 0)),
        pa.array([dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date32()),
        pa.array([-1, 0, 5], pa.timestamp("ns")),
        pa.array([1, 2], pa.timestamp("us", "UTC")),
        pa.array([1, 2], pa.time32("ms")),
        pa.array([-np.inf, -1.5, -0.0, 2.5, np.inf, np.nan], pa.float64()),
        pa.array([-1.5, 2.5], pa.float32()),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_of_every_type_merge(values: pa.Array) -> None:
    rows = len(values)
    runs = [run_of(values, range(rows)), run_of(values[:1], [rows]), run_of(values[-1:], [rows + 1])]
    result = merged(runs, batch_rows=1)
    assert result.column("v").to_pylist() == [f"v{rows}", *(f"v{i}" for i in range(1, rows - 1)), f"v{rows + 1}"]


def test_positive_and_negative_zero_are_one_key() -> None:
    runs = [run_of(pa.array([-0.0]), [0]), run_of(pa.array([0.0]), [1])]
    assert merged(runs).column("v").to_pylist() == ["v1"]


def test_a_single_run_passes_unchanged() -> None:
    run = run_of(pa.array([1, 2, 3]), [4, 1, 7])
    assert merged([run]).equals(run)


def test_no_run_and_empty_runs_give_nothing() -> None:
    empty = run_of(pa.array([], pa.int64()), [])
    assert list(merge_runs([], ["k"], ENGINE)) == []
    assert merged([empty, empty]).num_rows == 0


def test_a_null_key_is_refused_with_the_name_of_its_column() -> None:
    with pytest.raises(InvalidSchema, match="'k' has 1 NULL"):
        merged([run_of(pa.array([None], pa.int64()), [0])])


def test_long_runs_are_merged_with_two_batches_of_each_in_memory() -> None:
    taken = 0
    given = 0
    peak = 0
    batch_rows, batches, runs = 64, 200, 5

    def stream(run: int) -> Iterator[pa.RecordBatch]:
        nonlocal taken, peak
        for i in range(batches):
            keys = np.arange(i * batch_rows, (i + 1) * batch_rows) * runs + run
            rows = run_of(pa.array(keys), range(batch_rows))
            taken += batch_rows
            peak = max(peak, taken - given)
            yield rows.combine_chunks().to_batches()[0]

    last = -1
    for batch in merge_runs([stream(r) for r in range(runs)], ["k"], ENGINE):
        keys = batch.column("k").to_numpy()
        assert keys[0] > last
        last = int(keys[-1])
        given += batch.num_rows
    assert given == taken == batch_rows * batches * runs
    assert peak <= 2 * batch_rows * runs


def test_unsorted_rows_fold_by_sequence_number() -> None:
    rows = run_of(pa.array([3, 1, 3, 2, 1]), [4, 9, 2, 0, 1])
    assert fold_rows(rows, ["k"], ENGINE).column("v").to_pylist() == ["v9", "v0", "v4"]
    assert fold_rows(rows.slice(0, 0), ["k"], ENGINE).num_rows == 0


def test_ignored_deletes_leave_the_row_before_and_keys_without_a_row_vanish() -> None:
    engine = merge_engine("deduplicate", new_schema(COLUMNS, ["k"], options={"ignore-delete": "true"}))
    rows = run_of(pa.array([1, 1, 2, 3, 3]), [0, 1, 2, 3, 4], [0, 3, 3, 1, 2])
    assert fold_rows(rows, ["k"], engine).column("v").to_pylist() == ["v0", "v4"]
    assert [b.to_pydict()["v"] for b in merge_runs([rows.to_batches()], ["k"], engine)] == [["v0", "v4"]]


def test_an_unknown_engine_gets_the_nearest_name() -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'deduplicate'"):
        merge_engine("dedupicate", new_schema(COLUMNS, ["k"]))
