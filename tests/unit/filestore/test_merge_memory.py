"""How much of each run a merge holds."""

from __future__ import annotations

import pytest

from lakelog.filestore.read.data_file_reader import merge_batch_rows
from lakelog.paimon.metadata.data_file import DataFileMeta


def runs(count: int, rows: int, size: int) -> list[list[DataFileMeta]]:
    return [[DataFileMeta(f"f{i}", size, rows)] for i in range(count)]


@pytest.mark.parametrize(
    ("count", "row_bytes", "share", "rows"),
    [
        (1, 10, 1.0, 1 << 16),
        (11, 50, 1.0, 1 << 14),
        (11, 50, 0.1, 1 << 16),
        (40, 1000, 1.0, 1 << 12),
    ],
)
def test_many_runs_of_wide_rows_are_read_in_small_batches(count: int, row_bytes: int, share: float, rows: int) -> None:
    given = merge_batch_rows(runs(count, 100_000, 100_000 * row_bytes), share)
    assert given == rows


def test_files_without_rows_or_no_files_are_no_trouble() -> None:
    assert merge_batch_rows([]) == merge_batch_rows(runs(3, 0, 0)) == 1 << 16
