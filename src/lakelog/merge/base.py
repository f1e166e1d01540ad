"""The input and output of a merge engine: one piece of a merge, rows of complete keys, sorted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidOption
from lakelog.options.changelog import CHANGELOG_PRODUCERS
from lakelog.options.fields import split_names
from lakelog.options.log import CHANGES, INPUT
from lakelog.options.option import Option, Options
from lakelog.options.table import IGNORE_DELETE, MERGE_ENGINE, SEQUENCE_FIELD, SEQUENCE_FIELD_ORDER
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.null_rows import cast_column
from lakelog.paimon.types.types import AtomicType, DataField, is_ordered

SEQUENCE_COLUMN: Final = "_SEQUENCE_NUMBER"
KIND_COLUMN: Final = "_VALUE_KIND"

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Piece:
    """All rows of some keys.

    ``order`` lists the rows by key and, inside a key, from the oldest to the newest; None means that ``rows`` have this
    order already. ``starts`` are the positions in that order at which a key starts (the first is 0). ``folds_alone`` is
    true for each key whose row is folded even if it is the only one; None means none.
    """

    rows: pa.Table
    order: Indices | None
    starts: Indices
    folds_alone: Mask | None = None

    @property
    def newest(self) -> Indices:
        """The position in the order of the newest row of each key."""
        return np.append(self.starts[1:], self.rows.num_rows) - 1

    @property
    def sizes(self) -> Indices:
        """The number of rows of each key."""
        return np.diff(self.starts, append=self.rows.num_rows)

    def rows_at(self, positions: Indices) -> pa.Table:
        """The rows at positions of the order."""
        if self.order is not None:
            return self.rows.take(pa.array(self.order[positions]))
        if len(positions) == self.rows.num_rows:
            return self.rows
        return self.rows.take(pa.array(positions))

    def numbers(self, column: str) -> npt.NDArray[np.int64]:
        """A column of whole numbers without NULL, in the order."""
        values: npt.NDArray[np.int64] = one_array(self.rows.column(column)).to_numpy()
        return values if self.order is None else values[self.order]


@dataclass(frozen=True)
class Contested:
    """The keys of a piece with more than one row, for a merge function; a key with one row stays unchanged.

    ``is_contested`` marks them among the keys of the piece. ``rows`` are their rows (row numbers of ``piece.rows``) by
    key and age, ``starts`` the positions in ``rows`` at which a key starts, ``kinds`` the row kinds.
    """

    piece: Piece
    is_contested: Mask
    rows: Indices
    starts: Indices
    kinds: npt.NDArray[np.int8]

    @staticmethod
    def of(piece: Piece) -> Contested:
        """The contested keys of a piece."""
        sizes = piece.sizes
        return Contested._of(piece, sizes > 1 if piece.folds_alone is None else (sizes > 1) | piece.folds_alone)

    @staticmethod
    def _of(piece: Piece, is_contested: Mask) -> Contested:
        sizes = piece.sizes
        positions = np.flatnonzero(np.repeat(is_contested, sizes))
        kinds = piece.numbers(KIND_COLUMN)[positions].astype(np.int8, copy=False)
        rows = positions if piece.order is None else piece.order[positions]
        counts = sizes[is_contested]
        return Contested(piece, is_contested, rows, np.cumsum(counts) - counts, kinds)

    def without(self, keys: Mask) -> Contested:
        """The same without some of the contested keys, whose newest row then stays unchanged."""
        is_contested = self.is_contested.copy()
        is_contested[np.flatnonzero(is_contested)[keys]] = False
        return Contested._of(self.piece, is_contested)

    @cached_property
    def ends(self) -> Indices:
        """The position in ``rows`` of the newest row of each key."""
        return np.append(self.starts[1:], len(self.rows)) - 1

    @property
    def sizes(self) -> Indices:
        """The number of rows of each key."""
        return self.ends - self.starts + 1

    @cached_property
    def is_retract(self) -> Mask:
        """A mask of the rows of kind -U or -D."""
        return np.isin(self.kinds, (DELETE, UPDATE_BEFORE))

    def last_removed(self, removed: Mask) -> Indices:
        """The position in ``rows`` of the last row of each key that ``removed`` marks; -1: none."""
        last: Indices = np.maximum.reduceat(np.where(removed, np.arange(len(self.rows)), -1), self.starts)
        return last

    def lives(self, removed: Mask) -> tuple[Mask, Mask]:
        """A mask of the rows since the first insertion after the last row that ``removed`` marks; and of keys with any.

        Rows before it belong to a row that is gone, and a retraction in between has nothing to take back.
        """
        at = np.arange(len(self.rows))
        last = self.last_removed(removed)
        sizes = self.sizes
        adds = ~self.is_retract & (at > np.repeat(last, sizes))
        first = np.minimum.reduceat(np.where(adds, at, len(at)), self.starts)
        return at >= np.repeat(first, sizes), first < len(at)

    def column(self, name: str) -> pa.Array:
        """A column of the piece, addressed by ``rows``."""
        return one_array(self.piece.rows.column(name))

    def folded(self, columns: Mapping[str, pa.Array]) -> pa.Table:
        """The newest row of each key of the piece, with ``columns`` (one value per contested key) replaced."""
        newest = self.piece.rows_at(self.piece.newest)
        positions = np.empty(len(self.is_contested), dtype=np.int64)
        singles = int((~self.is_contested).sum())
        positions[~self.is_contested] = np.arange(singles)
        positions[self.is_contested] = np.arange(singles, len(positions))
        untouched = pa.array(np.flatnonzero(~self.is_contested))
        arrays = []
        for name, column in zip(newest.column_names, newest.columns, strict=True):
            if name not in columns:
                arrays.append(column)
                continue
            values = cast_column(columns[name], column.type)
            if singles:
                values = pa.concat_arrays([one_array(column).take(untouched), values]).take(pa.array(positions))
            arrays.append(values)
        return pa.Table.from_arrays(arrays, schema=newest.schema)


class MergeEngine(ABC):
    """Folds the rows of one key. Stateless; the same for reads, flushes and compactions."""

    folds_again: ClassVar[bool] = False
    """True if rows may be folded in parts and the results folded again, with the same result as all rows at once."""

    newest_wins: ClassVar[bool] = False
    """True if a row replaces the older ones of its key, as a whole, and a row of kind -D removes the key.

    UPDATE and MERGE then change rows by rewriting them, and a log may hold the rows as they are written.
    """
    null_keeps: ClassVar[bool] = False
    """True if NULL in a column of a row leaves the older value of its key."""
    oldest_wins: ClassVar[bool] = False
    """True if later rows never replace the first row of a key.

    Batch reads then skip level 0. Compactions look up the keys of new rows and drop the rows of known keys.
    """
    leaves_null: ClassVar[bool] = False
    """True if a folded column may be NULL although it is NOT NULL, so that data files hold all as nullable.

    No merge could write them otherwise: a total may not fit its column, and skipped retractions leave no value.
    """
    folds_apart: ClassVar[bool] = False
    """True if ``fold_apart`` may return several tables."""
    changelog_producers: ClassVar[tuple[str, ...]] = CHANGELOG_PRODUCERS
    """Values of ``changelog-producer`` that the engine supports."""
    remove_option: ClassVar[Option[bool] | None] = None
    """The option with which a row of kind -D removes its key; None if there is none."""

    refuses_overflow: bool = False
    """True in a write: a result that does not fit its column raises InvalidSchema, and is not NULL."""

    def __init__(self, schema: TableSchema) -> None:
        options = Options(schema.options)
        self.schema = schema
        self.ignore_delete = options.need(IGNORE_DELETE)
        self.sequence_fields = split_names(options.get_typed(SEQUENCE_FIELD))
        self.smallest_is_newest = options.need(SEQUENCE_FIELD_ORDER) == "descending"

    @classmethod
    def log_contents(cls, options: Options) -> tuple[str, ...]:
        """The values of ``log.content`` that a table with these options may have, the default first.

        Readers of a log see rows one by one. From input rows they know the merged row only if it is the last one.
        """
        is_last = cls.newest_wins and options.get_typed(SEQUENCE_FIELD) is None
        return (INPUT, CHANGES) if is_last else (CHANGES,)

    @property
    def takes_retractions(self) -> bool:
        """True if rows of kind -U and -D may be written, to count or to be ignored."""
        return True

    def retraction_fault(self, kind: int) -> str | None:
        """Why a row of kind -U or -D cannot be written, and what to do; None if it can.

        Called before a row is written, since no merge could fold it later.
        """
        if self.takes_retractions:
            return None
        engine = Options(self.schema.options).need(MERGE_ENGINE)
        return (
            f"merge engine '{engine}' accepts only inserts: filter out the retractions, or set '{IGNORE_DELETE.key}' = "
            "'true'"
        )

    @property
    def keeps_deleted_keys(self) -> bool:
        """True if a later row needs the row of a deleted key, so that no compaction may drop it.

        A row that comes later may be older by ``sequence.field``.
        """
        return bool(self.sequence_fields)

    def folds_parts(self, retracts: bool) -> bool:
        """True if rows of a key may be folded before older ones join them; ``retracts``: with rows of kind -U or -D.

        If not, a write keeps such rows apart, and a compaction takes all older rows along.
        """
        return True

    @property
    def number_decides(self) -> bool:
        """True if the row with the largest sequence number is the result, so that superseded rows need not be read."""
        return False

    def needed_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns required to merge some columns: a superset of them, without the keys."""
        columns = set(columns)
        return tuple(name for name in self.sequence_fields if name not in columns)

    def check_options(self) -> None:
        """Raises InvalidOption, InvalidSchema or UnsupportedFeature for options that would fail a later merge.

        Called for CREATE TABLE.
        """
        check_ordered(SEQUENCE_FIELD.key, self.schema.select(self.sequence_fields))

    def fold_new(self, piece: Piece) -> list[pa.Table]:
        """As ``fold_apart``, for the rows of one write: older rows of their keys are elsewhere.

        So the result does not depend on how rows are divided into writes. Raises InvalidSchema if ``refuses_overflow``.
        """
        return [self.fold(piece)]

    def fold_apart(self, piece: Piece) -> list[pa.Table]:
        """The folded rows, and the rows that a later row needs beside them to be folded in its place by age.

        The n-th further table has a row for each key that needs at least n of them. All tables together fold to the
        same rows. Called by compactions.
        """
        return [self.fold(piece)]

    def fold_whole(self, piece: Piece) -> list[pa.Table]:
        """As ``fold_apart``, but the folded rows are those of ``fold``: readers may see them alone.

        Beside them are only the parts of totals that do not fit. Called by compactions that show or report their rows.
        """
        return [self.fold(piece)]

    @abstractmethod
    def fold(self, piece: Piece) -> pa.Table:
        """At most one row per key, in key order, with the columns of the piece.

        ``_VALUE_KIND`` stays. A key whose result is a delete keeps a row of kind -D (or -U). A batch read drops it, and
        a compaction that does not reach the highest level must keep it.
        """


def check_ordered(option: str, fields: Sequence[DataField]) -> None:
    """Raises InvalidOption for a column whose values have no order, in an option that orders rows by it."""
    for field in fields:
        if isinstance(field.type, AtomicType) and not is_ordered(field.type):
            raise InvalidOption(
                f"option '{option}' orders rows by column '{field.name}' of type {field.type.root}, whose values have "
                "no order: name a column of numbers, times or text"
            )


class PickingEngine(MergeEngine):
    """An engine whose result is one of the rows of a key, so that only that row is copied."""

    @abstractmethod
    def pick(self, piece: Piece) -> Indices:
        """The positions in the order of the result rows: at most one per key, ascending."""

    def fold(self, piece: Piece) -> pa.Table:
        return piece.rows_at(self.pick(piece))


class KeepAll(MergeEngine):
    """Folds nothing: the rows of a key stay, by age. For rows that are folded together later."""

    def fold(self, piece: Piece) -> pa.Table:
        return piece.rows if piece.order is None else piece.rows.take(pa.array(piece.order))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column in one contiguous array."""
    chunk = column.combine_chunks()
    return pa.concat_arrays(chunk.chunks) if isinstance(chunk, pa.ChunkedArray) else chunk
