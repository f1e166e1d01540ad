"""The merge against a plain dict: whatever the runs and their batches, the newest row of each key comes out."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakelog.merge import merge_engine
from lakelog.merge.runs import merge_runs
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

Row = tuple[tuple[int, str], int, int]

KEYS = st.tuples(st.integers(0, 3) | st.integers(-(2**63), 2**63 - 1), st.sampled_from(["", "a", "ab", "é", "z" * 9]))
RUNS = st.lists(st.lists(st.tuples(KEYS, st.sampled_from([0, 1, 2, 3])), max_size=12), max_size=6)


def run_batches(rows: list[Row], batch_rows: int) -> list[pa.RecordBatch]:
    rows = sorted(rows, key=lambda row: (row[0][0], row[0][1].encode(), row[1]))
    table = pa.table(
        {
            "a": pa.array([key[0] for key, _, _ in rows], pa.int64()),
            "b": pa.array([key[1] for key, _, _ in rows], pa.string()),
            "_SEQUENCE_NUMBER": pa.array([sequence for _, sequence, _ in rows], pa.int64()),
            "_VALUE_KIND": pa.array([kind for _, _, kind in rows], pa.int8()),
        }
    )
    return table.to_batches(max_chunksize=batch_rows)


@given(runs=RUNS, batch_rows=st.integers(1, 5), order=st.randoms(use_true_random=False), ignore=st.booleans())
def test_a_merge_is_a_dict_that_is_updated_in_sequence_order(runs, batch_rows, order, ignore) -> None:  # type: ignore[no-untyped-def]
    numbers = list(range(sum(len(run) for run in runs)))
    order.shuffle(numbers)
    sequenced = [[(key, numbers.pop(), kind) for key, kind in run] for run in runs]
    expected: dict[tuple[int, str], tuple[int, int]] = {}
    for key, sequence, kind in sorted((row for run in sequenced for row in run), key=lambda row: row[1]):
        if not (ignore and kind in (1, 3)):
            expected[key] = (sequence, kind)

    columns = [("a", parse_type("BIGINT"), None), ("b", parse_type("STRING"), None)]
    schema = new_schema(columns, ["a", "b"], options={"ignore-delete": str(ignore).lower()})
    engine = merge_engine("deduplicate", schema)
    streams = [run_batches(run, batch_rows) for run in sequenced]
    got = [
        ((row["a"], row["b"]), (row["_SEQUENCE_NUMBER"], row["_VALUE_KIND"]))
        for batch in merge_runs(streams, ["a", "b"], engine)
        for row in batch.to_pylist()
    ]
    assert got == sorted(expected.items(), key=lambda item: (item[0][0], item[0][1].encode()))
