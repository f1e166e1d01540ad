"""Number of rows that a statement or a commit has changed, taken from what it wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

import numpy as np

from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, UPDATE_AFTER
from lakelog.table.model.attempt import AttemptResult


class RowCounts(TypedDict):
    """Changed rows, by the names of Delta Lake's metrics; ``num_affected_rows`` is the sum of the others.

    ``num_deleted_rows`` and the sum are None if the write has removed rows that only a read could count.
    """

    num_affected_rows: int | None
    num_updated_rows: int
    num_deleted_rows: int | None
    num_inserted_rows: int


def row_counts(inserted: int = 0, updated: int = 0, deleted: int | None = 0) -> RowCounts:
    """The counts of one write."""
    return {
        "num_affected_rows": None if deleted is None else inserted + updated + deleted,
        "num_updated_rows": updated,
        "num_deleted_rows": deleted,
        "num_inserted_rows": inserted,
    }


def sum_of(parts: Iterable[RowCounts]) -> RowCounts:
    """The counts of several writes together."""
    listed = list(parts)
    deleted = [part["num_deleted_rows"] for part in listed]
    return row_counts(
        sum(part["num_inserted_rows"] for part in listed),
        sum(part["num_updated_rows"] for part in listed),
        None if None in deleted else sum(count or 0 for count in deleted),
    )


class WrittenRows:
    """Rows of the accepted attempts of one write: all of them, and those of each row kind.

    The rows that a rewrite of files only keeps have no kind.
    """

    def __init__(self, rows: int, kinds: Iterable[int]) -> None:
        self.rows, self._kinds = rows, tuple(kinds)

    @staticmethod
    def of(results: Iterable[AttemptResult]) -> WrittenRows:
        """The rows of these attempts."""
        kinds = np.zeros(len(NAMES), dtype=np.int64)
        rows = 0
        for result in results:
            kinds += result.kinds
            rows += result.row_count
        return WrittenRows(rows, kinds.tolist())

    @property
    def as_changes(self) -> RowCounts:
        """Counts of rows written as changes; a -U belongs to its +U."""
        return row_counts(self._kinds[INSERT], self._kinds[UPDATE_AFTER], self._kinds[DELETE])

    @property
    def as_overwrite(self) -> RowCounts:
        """Counts of an overwrite, which does not read the rows that it replaces."""
        return row_counts(self._kinds[INSERT] + self._kinds[UPDATE_AFTER], deleted=None)

    def in_place_of(self, replaced: int | None) -> RowCounts:
        """Counts of a rewrite of files that had ``replaced`` rows (None: unknown)."""
        inserted = self._kinds[INSERT]
        deleted = None if replaced is None else replaced - (self.rows - inserted)
        return row_counts(inserted, self._kinds[UPDATE_AFTER], deleted)
