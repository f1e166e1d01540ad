"""The commit markers of a replacement of rows without a key follow those of all epochs whose rows it deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakelog.errors import Unavailable
from lakelog.lake.table import Table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.epoch_record import EpochRecord
from log_tables import files, make, rows, silence


def unmarked(monkeypatch: pytest.MonkeyPatch, table: Table, *ids: int, overwrite: bool = False) -> None:
    """Writes rows; the process dies before the commit markers of its snapshot."""

    def die(self: Committer, records: Sequence[EpochRecord]) -> None:
        raise Unavailable("died")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "append_commit", die)
        with table.writer(overwrite=True) if overwrite else table.writer() as writer:
            writer.write(rows(*ids))


def committed(table: Table) -> list[int]:
    """The ids that a transactional reader has at the end; no row is deleted before it is inserted."""
    found: Counter[int] = Counter()
    for batch in table.tail("earliest", stop="latest", options={"log.consistency": "transactional"}):
        for row in batch.to_pylist():
            found[row["id"]] += 1 if row["_row_kind"] == "+I" else -1
            assert found[row["id"]] >= 0, row
    return sorted(found.elements())


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_replacement_marks_the_epochs_whose_rows_it_deletes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    table = make(tmp_path, key="")
    unmarked(monkeypatch, table, 1, 1, overwrite=overwrite)
    assert committed(table) == []
    with table.writer(overwrite=True) as writer:
        writer.write(rows(2))
    assert committed(table) == [2]
    assert files(table) == [(2, "a")]


def test_a_take_over_marks_the_epochs_in_the_order_of_their_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, key="")
    for overwrite in (False, True, True):
        unmarked(monkeypatch, table, *([1] if overwrite else [1, 2, 3]), overwrite=overwrite)
        unmarked(monkeypatch, table, 4, 5)
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now(table.logical)
    assert committed(table) == [1, 4, 5]
    assert files(table) == [(1, "a"), (4, "a"), (5, "a")]


def test_a_replacement_after_another_one_deletes_no_row_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, propose = make(tmp_path, key=""), Committer.propose
    with table.writer() as writer:
        writer.write(rows(1, 2))

    def after_another(self: Committer, results: Sequence[AttemptResult]) -> EpochRecord:
        record = propose(self, results)
        monkeypatch.undo()
        with table.writer(overwrite=True) as other:
            other.write(rows(3))
        return record

    monkeypatch.setattr(Committer, "propose", after_another)
    with table.writer(overwrite=True) as writer:
        writer.write(rows(4))
    assert committed(table) == [4]
    assert files(table) == [(4, "a")]
