"""Superseded rows of overlapping files, computed from their keys alone, so that the files need no merge.

If the sequence number decides (``deduplicate`` without sequence fields), a merge returns rows unchanged or drops them.
So the positions of the replaced and deleted rows are sufficient. A reader skips them like rows in a deletion vector.
The result never expires, because files are immutable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.fileformat import format_of
from lakelog.filestore.metadata.levels import KeyRange, sorted_runs
from lakelog.filestore.read.data_file_reader import DataFileReader, row_schema
from lakelog.filestore.read.deletion_vectors import read_vector, vector_of
from lakelog.filestore.read.plan import Split
from lakelog.filestore.read.split_reader import engine_of, inline_rows
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN
from lakelog.merge.keys import Part, concat_parts, key_parts, taken
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema, file_fields

Mask = npt.NDArray[np.bool_]
"""One value per row of a file, true for a superseded row."""


@dataclass(frozen=True)
class KeyedRows:
    """The keys of one file's rows.

    ``parts`` are the key columns (``merge.keys``). ``deletes`` marks the delete rows (None: there are none), ``masked``
    the rows in a deletion vector (None: there are none). ``numbers`` are the sequence numbers; None means that all of
    them are larger than those of the previous files.
    """

    parts: Sequence[Part]
    deletes: Mask | None = None
    masked: Mask | None = None
    numbers: npt.NDArray[np.int64] | None = None

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return len(self.parts[0])


def merges_by_position(schema: TableSchema) -> bool:
    """Returns whether a table's merge only selects rows of its files, by key and sequence number."""
    return schema.is_keyed and engine_of(schema).number_decides


def superseded_masks(files: Sequence[KeyedRows], ignore_delete: bool = False) -> list[Mask]:
    """For each file a mask of the rows that a merge of all files, oldest first, drops.

    Pure. The merge keeps the newest row of each key unless it is a delete. ``ignore_delete`` excludes deletes.
    """
    rows = sum(file.row_count for file in files)
    hidden = np.zeros(rows, dtype=np.bool_)
    absent = np.zeros(rows, dtype=np.bool_)
    ends = np.cumsum([file.row_count for file in files])
    for file, end in zip(files, ends, strict=True):
        at = slice(end - file.row_count, end)
        if file.masked is not None:
            absent[at] |= file.masked
        if file.deletes is not None:
            (absent if ignore_delete else hidden)[at] |= file.deletes
    parts = [concat_parts(column) for column in zip(*(file.parts for file in files), strict=True)]
    numbers = _numbers(files)
    hidden |= absent
    taking_part = None if not absent.any() else np.flatnonzero(~absent)
    if taking_part is not None:
        parts = [taken(part, taking_part) for part in parts]
        numbers = None if numbers is None else numbers[taking_part]
    replaced = ~_newest(parts, numbers)
    if taking_part is None:
        hidden |= replaced
    else:
        hidden[taking_part] |= replaced
    return np.split(hidden, ends[:-1])


def hidden_in_split(files: DataFileReader, split: Split) -> dict[str, Mask]:
    """The rows of a split that its merge drops, by file name; for tables that ``merges_by_position`` accepts.

    Called on the driver or on executors. Reads the key columns of all files, the row kinds of files with deletes, and
    the sequence numbers of runs with overlapping ones. The rows of ``split.inline_runs`` hide rows of files, too.
    Raises NotFound, Corrupt.
    """
    schema = files.paths.schema
    runs = sorted_runs(split.files, KeyRange.of(schema))[::-1]
    ordered = [file for run in runs for file in run.files]
    in_order = all(
        max(f.max_sequence_number for f in older.files) < min(f.min_sequence_number for f in newer.files)
        for older, newer in zip(runs, runs[1:], strict=False)
    )
    read = [_keys_of(files, split, file, with_numbers=not in_order) for file in ordered]
    if split.inline_runs:
        read.append(_inline_keys(split, schema, with_numbers=not in_order))
    masks = superseded_masks(read, engine_of(schema).ignore_delete)
    return {file.file_name: mask for file, mask in zip(ordered, masks, strict=False)}


def _keys_of(files: DataFileReader, split: Split, file: DataFileMeta, with_numbers: bool) -> KeyedRows:
    schema = files.paths.schema
    written = files.schemas.get(file.schema_id)
    names = {f.id: f.name for f in written.fields}
    keys = [names[f.id] for f in schema.select(schema.trimmed_primary_keys)]
    has_deletes = file.delete_row_count != 0
    extra = [*([KIND_COLUMN] if has_deletes else []), *([SEQUENCE_COLUMN] if with_numbers else [])]
    path = files.paths.data_file(split.partition, split.bucket, file)
    format_ = format_of(file.file_name)
    batches = list(format_.read(files.io, path, [*keys, *extra], fields=file_fields(written)))
    vector = vector_of(split.vectors, file.file_name)
    masked = None
    if vector is not None:
        masked = np.zeros(file.row_count, dtype=np.bool_)
        masked[read_vector(files.io, vector)] = True
    return _keyed_rows(batches, keys, has_deletes, with_numbers, masked)


def _inline_keys(split: Split, schema: TableSchema, with_numbers: bool) -> KeyedRows:
    keys = schema.trimmed_primary_keys
    rows = inline_rows(split.inline_runs, row_schema(schema, keys, True))
    return _keyed_rows(rows.combine_chunks().to_batches(), keys, True, with_numbers, None)


def _keyed_rows(
    batches: Sequence[pa.RecordBatch], keys: Sequence[str], has_deletes: bool, with_numbers: bool, masked: Mask | None
) -> KeyedRows:
    parts = [concat_parts(column) for column in zip(*(key_parts(b, keys) for b in batches), strict=True)]
    deletes = numbers = None
    if has_deletes:
        kinds = np.concatenate([b.column(KIND_COLUMN).to_numpy() for b in batches])
        deletes = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
    if with_numbers:
        numbers = np.concatenate([b.column(SEQUENCE_COLUMN).to_numpy() for b in batches])
    return KeyedRows(parts, deletes, masked, numbers)


def _numbers(files: Sequence[KeyedRows]) -> npt.NDArray[np.int64] | None:
    numbers = [file.numbers for file in files if file.numbers is not None]
    return np.concatenate(numbers) if numbers else None


def _newest(parts: Sequence[Part], numbers: npt.NDArray[np.int64] | None) -> Mask:
    """A mask of the rows without a later row (by number, then by position) of their key."""
    if len(parts) == 1 and isinstance(parts[0], np.ndarray) and numbers is None:
        return _newest_number(parts[0])
    frame = pl.DataFrame([pl.Series(str(at), part) for at, part in enumerate(parts)])
    if numbers is None:
        newest: Mask = frame.select(pl.struct(pl.all()).is_last_distinct()).to_series().to_numpy()
        return newest
    order = np.argsort(numbers, kind="stable")
    is_last = frame[order].select(pl.struct(pl.all()).is_last_distinct()).to_series().to_numpy()
    newest = np.empty(len(order), dtype=np.bool_)
    newest[order] = is_last
    return newest


def _newest_number(keys: npt.NDArray[np.int64]) -> Mask:
    """``_newest`` for one numeric column of concatenated sorted runs, which a stable sort merges efficiently."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    newest = np.ones(len(keys), dtype=np.bool_)
    newest[order[:-1][ordered[1:] == ordered[:-1]]] = False
    return newest
