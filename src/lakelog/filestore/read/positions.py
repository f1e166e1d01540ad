"""Rows of a split with their file and position, for tables whose merge only selects rows of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.read.data_file_reader import SYSTEM_COLUMNS, DataFileReader, row_schema
from lakelog.filestore.read.deletion_vectors import read_vector, vector_of
from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.split_reader import inline_rows
from lakelog.filestore.read.superseded_rows import Mask, hidden_in_split
from lakelog.merge.base import KIND_COLUMN
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER


@dataclass(frozen=True)
class LocatedRows:
    """A batch of rows of one file with their 0-based positions there; None for rows that are in no file yet."""

    batch: pa.RecordBatch
    file: DataFileMeta | None = None
    positions: npt.NDArray[np.int64] | None = None


def located_rows(files: DataFileReader, split: Split, columns: Sequence[str]) -> Iterator[LocatedRows]:
    """The rows of a split with the table columns ``columns``, unfiltered.

    Called on executors. A split that needs a merge must be of a table that ``merges_by_position`` accepts. Raises
    NotFound, Corrupt, UnsupportedFeature.
    """
    hidden = hidden_in_split(files, split) if split.needs_merge and split.files else {}
    for file in split.files:
        yield from _of_file(files, split, file, columns, hidden.get(file.file_name))
    rows = inline_rows(split.inline_runs, row_schema(files.paths.schema, columns, True))
    for batch in rows.to_batches():
        kinds = batch.column(KIND_COLUMN)
        is_row = pc.or_(pc.equal(kinds, INSERT), pc.equal(kinds, UPDATE_AFTER))
        yield LocatedRows(batch.filter(is_row).drop_columns(list(SYSTEM_COLUMNS)))


def _of_file(
    files: DataFileReader, split: Split, file: DataFileMeta, columns: Sequence[str], hidden: Mask | None
) -> Iterator[LocatedRows]:
    vector = vector_of(split.vectors, file.file_name)
    if hidden is None and vector is not None:
        hidden = np.zeros(file.row_count, dtype=np.bool_)
        hidden[read_vector(files.io, vector)] = True
    first = 0
    for batch in files.read(split.partition, split.bucket, file, columns):
        positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
        first += batch.num_rows
        if hidden is not None:
            kept = ~hidden[positions]
            batch, positions = batch.filter(pa.array(kept)), positions[kept]
        yield LocatedRows(batch, file, positions)
