from __future__ import annotations

import pytest

from lakelog.errors import Corrupt
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.table.model.attempt import AttemptResult, BucketAppend, StagedRun
from lakelog.table.model.epoch_record import EpochRecord

FILE = DataFileMeta(
    "data-1-0.parquet", 10, 3, b"\x00\x01", b"\xff", SimpleStats(b"a", b"b", (0, None)), level=0, creation_time_ms=5,
    value_stats_cols=("a",), embedded_file_index=b"i",
)  # fmt: skip
RECORD = EpochRecord(
    "w-1",
    7,
    123,
    (
        AttemptResult(
            "w-1", 7, "aa", (BucketAppend(0, 5, 3), BucketAppend(1, 9, 1)),
            (StagedRun(b"p", 0, 2, b"inline-0"), StagedRun(b"q", 1, 3, files=(FILE,), delta=-4)), 5,
        ),
        AttemptResult("w-1", 7, "bb", (BucketAppend(0, 8, 2),), (StagedRun(b"p", 0, 1, b"second"),), 1),
    ),
    {0: 5, 1: 9},
)  # fmt: skip


def test_a_record_survives_its_bytes() -> None:
    assert EpochRecord.from_bytes(RECORD.to_bytes(), "x") == RECORD


def test_it_counts_what_the_accepted_attempts_appended() -> None:
    assert (RECORD.entries_appended(0), RECORD.entries_appended(1), RECORD.entries_appended(2)) == (5, 1, 0)
    assert RECORD.accepted == {"aa", "bb"}
    assert RECORD.row_count == 6


def test_other_bytes_are_named_corrupt() -> None:
    with pytest.raises(Corrupt, match="some/path"):
        EpochRecord.from_bytes(b"not a record", "some/path")
