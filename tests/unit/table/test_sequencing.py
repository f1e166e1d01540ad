from __future__ import annotations

import pyarrow as pa

from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN, AttemptResult, StagedRun
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.runs.runs import run_to_ipc
from lakelog.table.runs.sequencing import bucket_keys_of, sequence_runs

PLACE = (b"p", 0)


def inline(orders: list[int], ids: list[int]) -> StagedRun:
    rows = pa.table(
        {"id": ids, ORDER_COLUMN: pa.array(orders, pa.int64()), KIND_COLUMN: pa.array([0] * len(ids), pa.int8())}
    )
    return StagedRun(*PLACE, len(ids), run_to_ipc(rows))


def record(epoch: int, *runs: StagedRun) -> EpochRecord:
    return EpochRecord(
        "w", epoch, epoch, tuple(AttemptResult("w", epoch, str(i), (), (r,), 1) for i, r in enumerate(runs))
    )


def numbered(result) -> list[tuple[int, int]]:
    return [
        (s, i)
        for t in result[PLACE].inline
        for s, i in zip(t.rows[ORDER_COLUMN].to_pylist(), t.rows["id"].to_pylist(), strict=True)
    ]


def test_rows_of_two_tasks_keep_the_order_of_the_log() -> None:
    result = sequence_runs([record(0, inline([10, 13], [1, 2]), inline([11, 12], [3, 4]))], {PLACE: 99})
    assert numbered(result) == [(100, 1), (101, 3), (102, 4), (103, 2)]


def test_a_later_epoch_is_above_an_earlier_one() -> None:
    result = sequence_runs([record(0, inline([50], [1])), record(1, inline([7], [2]))], {})
    assert numbered(result) == [(0, 1), (1, 2)]


def file(low: int, high: int) -> DataFileMeta:
    return DataFileMeta("f", 1, 1, min_sequence_number=low, max_sequence_number=high)


def test_a_file_above_the_snapshot_is_taken_as_it_is() -> None:
    run = StagedRun(*PLACE, 5, files=(file(100, 105),), delta=90)
    result = sequence_runs([record(0, run)], {PLACE: 99})
    assert result[PLACE].files == [(file(100, 105), 0)]


def test_a_file_that_another_commit_overtook_is_shifted_above_it() -> None:
    run = StagedRun(*PLACE, 5, files=(file(100, 105),), delta=90)
    result = sequence_runs([record(0, run)], {PLACE: 200})
    assert result[PLACE].files == [(file(100, 105), 101)]


def test_inline_rows_next_to_a_file_keep_the_order_of_the_log() -> None:
    run = StagedRun(*PLACE, 2, files=(file(100, 105),), delta=90)
    result = sequence_runs([record(0, run, inline([12], [1])), record(1, inline([20], [2]))], {PLACE: 99})
    assert numbered(result) == [(102, 1), (106, 2)]
    assert bucket_keys_of([record(0, run)]) == {PLACE}
