"""The files of one bucket as sorted runs, and the sections in which their key ranges overlap (format sheet 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from lakelog.options.option import Options
from lakelog.options.table import COMPACTION_TRIGGER, NUM_LEVELS
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.rows.binary_row import decode_rows
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataType

Key = tuple[Any, ...]


class _NaN(float):
    """NaN in a key: equal to itself and above all numbers, like the sort order of files."""

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isnan(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: float) -> bool:
        return False

    def __le__(self, other: float) -> bool:
        return self == other

    def __gt__(self, other: float) -> bool:
        return self != other

    def __ge__(self, other: float) -> bool:
        return True


def key_value(value: Any) -> Any:
    """A value of a key column in a form that compares like the sort order of files."""
    return _NaN(value) if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True)
class KeyRange:
    """Reads the key ranges of files; ``types`` are the column types of the trimmed primary key."""

    types: tuple[DataType, ...]

    @staticmethod
    def of(schema: TableSchema) -> KeyRange:
        """The key ranges of a table's files."""
        return KeyRange(tuple(f.type for f in schema.select(schema.trimmed_primary_keys)))

    def low(self, file: DataFileMeta) -> Key:
        """The smallest key; keys compare in the format's sort order (text by code point, which is byte order)."""
        return self._keys([file.min_key])[0]

    def high(self, file: DataFileMeta) -> Key:
        return self._keys([file.max_key])[0]

    def of_files(self, files: Sequence[DataFileMeta]) -> Iterator[tuple[Key, Key]]:
        """The smallest and the largest key of each file."""
        return zip(self._keys([f.min_key for f in files]), self._keys([f.max_key for f in files]), strict=True)

    def _keys(self, rows: Sequence[bytes]) -> Sequence[Key]:
        keys = decode_rows(rows, self.types)
        return [tuple(map(key_value, values)) for values in keys] if self._has_floats else keys

    @cached_property
    def _has_floats(self) -> bool:
        return any(isinstance(t, AtomicType) and t.root in ("FLOAT", "DOUBLE") for t in self.types)


@dataclass(frozen=True)
class SortedRun:
    """Files of one level whose key ranges do not overlap, in key order. At level 0 each file is a separate run."""

    level: int
    files: tuple[DataFileMeta, ...]

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.file_size for f in self.files)


def sorted_runs(files: Iterable[DataFileMeta], keys: KeyRange) -> list[SortedRun]:
    """The runs of a bucket, newest first: level 0 by sequence number, then level 1, 2, …"""
    by_level: dict[int, list[DataFileMeta]] = {}
    for file in files:
        by_level.setdefault(file.level, []).append(file)
    runs = [SortedRun(0, (file,)) for file in sorted(by_level.pop(0, []), key=_age)]
    for level in sorted(by_level):
        runs.append(SortedRun(level, tuple(sorted(by_level[level], key=keys.low))))
    return runs


def _age(file: DataFileMeta) -> tuple[Any, ...]:
    """Newest first; ties by the smaller first number, the creation time, the name."""
    return (-file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.file_name)


@dataclass(frozen=True)
class Section:
    """Files whose key ranges overlap, directly or transitively; sections have disjoint keys."""

    files: tuple[DataFileMeta, ...]
    low: Key
    high: Key

    def runs(self, keys: KeyRange) -> list[tuple[DataFileMeta, ...]]:
        """The minimum number of runs of non-overlapping files, oldest first."""
        if len(self.files) == 1:
            return [self.files]
        return [run.files for run in reversed(sorted_runs(self.files, keys))]


def sections(files: Sequence[DataFileMeta], keys: KeyRange) -> list[Section]:
    """The files of a bucket, grouped into sections in key order."""
    out: list[Section] = []
    section: list[DataFileMeta] = []
    low: Key = ()
    high: Key = ()
    ranges = [(*ends, file) for ends, file in zip(keys.of_files(files), files, strict=True)]
    for start, end, file in sorted(ranges, key=lambda item: item[:2]):
        if section and start > high:
            out.append(Section(tuple(section), low, high))
            section = []
        if not section:
            low, high = start, end
        section.append(file)
        high = max(high, end)
    if section:
        out.append(Section(tuple(section), low, high))
    return out


def has_deletes(file: DataFileMeta) -> bool:
    """Returns whether a file has rows of kind -U or -D; True if unknown."""
    return file.delete_row_count is None or file.delete_row_count > 0


def highest_level(schema: TableSchema) -> int:
    """The level that a full compaction writes to (``num-levels``, or the compaction trigger + 1 levels)."""
    options = Options(schema.options)
    return (options.get_typed(NUM_LEVELS) or options.need(COMPACTION_TRIGGER) + 1) - 1


APART: Final = "-apart"
"""Part of the names of files with rows that a full compaction keeps beside the folded ones (``is_apart``)."""


def is_apart(file: DataFileMeta) -> bool:
    """Returns whether a file has only rows that later rows may need beside the folded ones.

    A compaction keeps them below its output level: deleted keys, and rows that are compared with late ones.
    """
    return APART in file.file_name


def has_only_deleted_keys(file: DataFileMeta) -> bool:
    """Returns whether a file has only rows of kind -U or -D that a compaction kept apart, and so hides no older row."""
    return is_apart(file) and file.delete_row_count == file.row_count
