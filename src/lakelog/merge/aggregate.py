"""Aggregate functions, which fold the values of a column key by key, and merge engines of them (format sheet 8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InternalError, InvalidOption, InvalidSchema
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, Contested, Indices, Mask, MergeEngine, Piece
from lakelog.merge.steps import ADD, ADD_REVERSED, RETRACT, SET, SKIP, Steps
from lakelog.options.fields import IGNORE_RETRACT, FieldOptions
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import ArrayType, AtomicType, DataField, DataType, MapType

_MOST_APART: Final = 32
"""Maximum number of rows of a key in one write or compaction that stay unfolded."""
_NESTED: Final[Mapping[type[DataType], str]] = {ArrayType: "ARRAY", MapType: "MAP"}
"""Types with parts that ``Aggregate.roots`` can name."""


class Aggregate(ABC):
    """An aggregate function of one column; ``name`` is its name in the table's options.

    ``roots`` are the types that it accepts; None: all. ``ARRAY`` and ``MAP`` are those of any parts. ``retracts`` is
    true if values can be taken back, ``retracts_in_parts`` if also from a result to which older values are added later.
    """

    roots: ClassVar[tuple[str, ...] | None] = None
    retracts: ClassVar[bool] = True
    retracts_in_parts: ClassVar[bool] = False
    counts_once: ClassVar[bool] = False
    """True if a value that is there twice changes nothing, as for a maximum."""
    retracts_apart: ClassVar[bool] = False
    """True if values can be taken back from such a result if the retraction stays beside it (``compared``)."""
    is_of_newest: ClassVar[bool] = False
    """True if a row that is older than the result never counts again."""
    is_order_free: ClassVar[bool] = False
    """True if the values of rows may be joined in any order."""
    may_retract_to_null: ClassVar[bool] = False
    """True if a retraction may leave no value."""
    neutral: ClassVar[Any] = None
    """The value that changes no result, for a column without NULL."""

    def __init__(self, name: str, field: DataField, options: Mapping[str, str]) -> None:
        self.name, self.field = name, field
        self.options = FieldOptions(field.name, options)
        self.ignore_retract: bool = self.options.get(IGNORE_RETRACT)
        root = field.type.root if isinstance(field.type, AtomicType) else _NESTED.get(type(field.type), "")
        if self.roots is not None and root not in self.roots:
            raise InvalidOption(
                f"option 'fields.{field.name}.aggregate-function' = '{name}' does not fit column '{field.name}' of "
                f"type {field.type.to_json()}: it takes {', '.join(self.roots)}"
            )

    @property
    def retraction_fault(self) -> str | None:
        """Why values cannot be taken back, and what to do; None if they can, or are skipped."""
        if self.ignore_retract:
            return None
        if self.may_retract_to_null and not self.field.type.nullable:
            return (
                f"column '{self.field.name}' is NOT NULL, and aggregate function '{self.name}' leaves no value after "
                f"a retraction: set 'fields.{self.field.name}.ignore-retract' = 'true' to skip it, or drop NOT NULL"
            )
        if self.retracts:
            return None
        return (
            f"aggregate function '{self.name}' of column '{self.field.name}' cannot retract values: set "
            f"'fields.{self.field.name}.ignore-retract' = 'true' to skip them"
        )

    def apply(self, column: pa.Array, steps: Steps) -> pa.Array:
        """One value per key: the accumulator after its steps; NULL if it does not fit the column.

        Raises InvalidSchema for a retraction that the function does not support.
        """
        return self.fold(column, self.without_ignored(steps))

    def parts(self, column: pa.Array, steps: Steps) -> list[pa.Array]:
        """The values of ``apply``, and arrays of the parts, each of which fits, of results that do not fit."""
        return self.fold_parts(column, self.without_ignored(steps))

    def without_ignored(self, steps: Steps) -> Steps:
        """The steps without retractions that are skipped. Raises InvalidSchema as ``apply``."""
        is_retract = steps.ops == RETRACT
        if not is_retract.any():
            return steps
        if self.ignore_retract:
            return steps.with_ops(np.where(is_retract, SKIP, steps.ops).astype(np.uint8))
        if not self.retracts:
            raise InvalidSchema(f"there are rows of kind -U or -D, but {self.retraction_fault}")
        return steps

    @abstractmethod
    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        """Like ``apply``, with retractions only if the function supports them."""

    def fold_parts(self, column: pa.Array, steps: Steps) -> list[pa.Array]:
        """Like ``parts``, with retractions only if the function supports them."""
        return [self.fold(column, steps)]


class SelectingAggregate(Aggregate):
    """A function whose result is one of the values."""

    counts_once: ClassVar[bool] = True
    shows_own: ClassVar[bool] = False
    """True if the folded row keeps its own value where the result is kept beside it."""

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        return steps.take(column, self.pick(column, steps))

    @abstractmethod
    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        """The step with the result value, for each key; -1: NULL."""

    def compared(self, column: pa.Array, steps: Steps) -> Indices | None:
        """The step with whose row a row is compared that comes later, but is older (-1: none); None: with no row."""
        return None


class ByKey(Aggregate):
    """A function that is computed value by value; for nested values, which numpy does not fold."""

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        values = column.take(pa.array(steps.rows)).to_pylist()
        ops = steps.ops.tolist()
        results = []
        for start, end in zip(steps.starts.tolist(), steps.ends.tolist(), strict=True):
            accumulator = None
            for at in range(start, end + 1):
                accumulator = self._step(accumulator, values[at], ops[at])
            results.append(accumulator)
        return pa.array(results, column.type)

    def _step(self, accumulator: Any, value: Any, op: int) -> Any:
        if op == ADD:
            return self.add(accumulator, value)
        if op == RETRACT:
            return self.retract(accumulator, value)
        if op == ADD_REVERSED:
            return self.add_reversed(accumulator, value)
        return value if op == SET else accumulator

    @abstractmethod
    def add(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with a value added; both may be None."""

    def retract(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with a value taken back; both may be None. For functions with ``retracts`` only."""
        raise InternalError(f"aggregate function '{self.name}' was asked to take back {value!r}")

    def add_reversed(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with an older value added."""
        return self.add(value, accumulator)


def counted(steps: Steps, valid: Mask) -> Mask:
    """The steps that contribute to the result, if NULL does not count and SET discards earlier values."""
    counts: Mask = valid & steps.since_set & (steps.ops != SKIP)
    return counts


def frozen(value: Any) -> Hashable:
    """A nested Python value as a hashable dict key; equal values have equal keys, NaN equals itself."""
    if isinstance(value, dict):
        return ("row", *((name, frozen(part)) for name, part in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *(frozen(part) for part in value))
    if isinstance(value, float) and value != value:
        return ("NaN",)
    if isinstance(value, float) and value == 0:
        return ("zero", str(value))
    return value  # type: ignore[no-any-return]


class ColumnEngine(MergeEngine):
    """A merge engine that folds each column by an aggregate function."""

    leaves_null: ClassVar[bool] = True
    folds_apart: ClassVar[bool] = True

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self._functions: dict[str, Aggregate] = {}
        self._parts: dict[str, list[pa.Array]] = {}

    def check_options(self) -> None:
        super().check_options()
        for name in self.schema.field_names:
            self._function(name)

    def _function(self, column: str) -> Aggregate:
        """The function of a column, made once."""
        if column not in self._functions:
            self._functions[column] = self._new_function(column)
        return self._functions[column]

    def _apply(self, name: str, column: pa.Array, steps: Steps) -> pa.Array:
        """The values of a column. Parts beside them, which are at most a few, are noted in ``_parts``."""
        whole, *others = self._function(name).parts(column, steps)
        if others:
            self._parts[name] = others
        return whole

    def fold(self, piece: Piece) -> pa.Table:
        contested = Contested.of(piece)
        return contested.folded(self._with_parts(contested)[0]) if len(contested.rows) else piece.rows_at(piece.newest)

    def fold_whole(self, piece: Piece) -> list[pa.Table]:
        contested = Contested.of(piece)
        if not len(contested.rows):
            return [piece.rows_at(piece.newest)]
        folded, parts = self._with_parts(contested)
        together = contested.folded(folded)
        return [together, *self._beside_parts(contested, together, parts)]

    def _with_parts(self, contested: Contested) -> tuple[dict[str, pa.Array], dict[str, list[pa.Array]]]:
        """The new values of columns, and by column the parts beside them. Raises as ``refuses_overflow`` says."""
        self._parts.clear()
        folded, parts = self._folded(contested), dict(self._parts)
        for name, others in parts.items() if self.refuses_overflow else ():
            is_large = np.logical_or.reduce([part.is_valid().to_numpy(zero_copy_only=False) for part in others])
            row = pa.array(contested.rows[contested.starts[is_large][:1]])
            keys = [k for k in self.schema.primary_keys if k in contested.piece.rows.column_names]
            raise InvalidSchema(
                f"the values of column '{name}' of key { {k: contested.column(k).take(row)[0].as_py() for k in keys} } "
                f"that are written at once have a {self._function(name).name} that does not fit "
                f"{self.schema.field(name).type.to_json()}: use a larger type"
            )
        return folded, parts

    @abstractmethod
    def _folded(self, contested: Contested) -> dict[str, pa.Array]:
        """The new values of columns, for contested keys; values of ``_apply``."""

    def fold_new(self, piece: Piece) -> list[pa.Table]:
        return self._fold_apart(piece, is_new=True)

    def fold_apart(self, piece: Piece) -> list[pa.Table]:
        return self._fold_apart(piece, is_new=False)

    def _fold_apart(self, piece: Piece, is_new: bool) -> list[pa.Table]:
        every = Contested.of(piece)
        if not len(every.rows):
            return [piece.rows_at(piece.newest)]
        unfolded = self._unfolded(every, is_new) & (every.sizes <= _MOST_APART)
        contested = every.without(unfolded) if unfolded.any() else every
        rows = [_by_age(every, unfolded)]
        if not len(contested.rows):
            return [piece.rows_at(piece.newest), *rows[0]]
        folded, parts = self._with_parts(contested)
        for name in parts:
            if not self.schema.field(name).type.nullable:
                folded[name] = pc.fill_null(folded[name], self._neutral(name, folded[name].type))
        place, kept = contested.ends, [contested.last_removed(self._removes(contested))] if is_new else []
        steps = self._steps(contested) if self.sequence_fields or (is_new and contested.is_retract.any()) else None
        if steps is not None:
            # the folded row adds, so it takes the place of a row that adds, and a newer retraction stays itself
            is_own = np.isin(steps.ops[steps.ends], (ADD, SET))
            place = np.where(is_own, steps.ends, steps.last(steps.ops == ADD))
            place = np.where(place < 0, steps.ends, place)
            kept += [steps.ends, contested.last_removed(self._removes(contested)), *self._compared(contested, steps)]
            at = pa.array(contested.rows[place])
            moved = {SEQUENCE_COLUMN, *self.sequence_fields} if not is_own.all() else set()
            moved |= {name for name in self.schema.field_names if self.sequence_fields and self._shows_own(name)}
            folded |= {name: contested.column(name).take(at) for name in moved}
        together = contested.folded(folded)
        rows += [self._beside_rows(contested, place, kept), self._beside_parts(contested, together, parts)]
        return [together, *(pa.concat_tables(t for t in tables if t) for tables in zip_longest(*rows))]

    def _compared(self, contested: Contested, steps: Steps) -> Iterator[Indices]:
        """For each column the places of the rows with which a later row is compared (-1: none)."""
        for name in self.schema.field_names:
            function = self._function(name)
            if isinstance(function, SelectingAggregate):
                places = function.compared(contested.column(name), function.without_ignored(steps))
                if places is not None:
                    # in order of the writes, a newer row is compared with what is taken back only
                    counts = bool(self.sequence_fields) | (steps.ops[places] == RETRACT)
                    yield np.where(counts, places, -1)

    def _shows_own(self, name: str) -> bool:
        function = self._function(name)
        return isinstance(function, SelectingAggregate) and function.shows_own

    def _beside_rows(self, contested: Contested, place: Indices, kept: Sequence[Indices]) -> list[pa.Table]:
        """The rows at these places of each key (-1: none), except the place of the folded row."""
        if not kept:
            return []
        places = np.column_stack(kept)
        places = np.sort(np.where(places == place[:, None], -1, places), axis=1)[:, ::-1]
        places[:, 1:][places[:, 1:] == places[:, :-1]] = -1
        places = np.sort(places, axis=1)[:, ::-1]
        number = int((places >= 0).any(axis=0).sum())
        taken = [contested.rows[column[column >= 0]] for column in places.T[:number]]
        return [self._without_totals(contested.piece.rows.take(pa.array(rows))) for rows in taken]

    def _beside_parts(
        self, contested: Contested, together: pa.Table, parts: Mapping[str, list[pa.Array]]
    ) -> list[pa.Table]:
        """Rows with the parts of results that do not fit, older than the folded rows."""
        keys, tables = np.flatnonzero(contested.is_contested), []
        oldest = contested.column(SEQUENCE_COLUMN).take(pa.array(contested.rows[contested.starts]))
        for number in range(max(map(len, parts.values()), default=0)):
            here = {name: others[number] for name, others in parts.items() if number < len(others)}
            has_any = np.logical_or.reduce([part.is_valid().to_numpy(zero_copy_only=False) for part in here.values()])
            rows = self._without_totals(together.take(pa.array(keys[has_any])))
            for name, values in {**here, SEQUENCE_COLUMN: oldest}.items():
                index = rows.schema.get_field_index(name)
                field, taken = rows.schema.field(index), values.filter(pa.array(has_any))
                if not field.nullable and name != SEQUENCE_COLUMN:
                    taken = pc.fill_null(taken, self._neutral(name, taken.type))
                rows = rows.set_column(index, field, taken)
            tables.append(rows)
        return tables

    def _without_totals(self, rows: pa.Table) -> pa.Table:
        """Rows without the values of functions that would count them again."""
        for index, field in enumerate(rows.schema):
            is_own = field.name in (KIND_COLUMN, SEQUENCE_COLUMN, *self.sequence_fields)
            if not is_own and not self._function(field.name).counts_once:
                value = pa.scalar(None, field.type) if field.nullable else self._neutral(field.name, field.type)
                rows = rows.set_column(index, field, pa.repeat(value, rows.num_rows))
        return rows

    def _neutral(self, name: str, kind: pa.DataType) -> pa.Scalar:
        return pa.scalar(self._function(name).neutral, kind)

    def _unfolded(self, contested: Contested, is_new: bool) -> Mask:
        """The keys whose rows all stay, because rows elsewhere may come before or between them.

        If not ``is_new``, all older rows of the keys are among them, unless ``folds_parts``.
        """
        if not contested.is_retract.any() or not (is_new or self.keeps_deleted_keys):
            return np.zeros(len(contested.starts), dtype=np.bool_)
        # an older row, which comes later, may be what they take back
        removes = self._removes(contested)
        after = np.arange(len(contested.rows)) > np.repeat(contested.last_removed(removes), contested.sizes)
        unfolded: Mask = np.logical_or.reduceat(contested.is_retract & after, contested.starts)
        return unfolded & ~contested.lives(removes)[1]

    def _steps(self, contested: Contested) -> Steps | None:
        """The steps of all columns; None if they differ."""
        return None

    def _removes(self, contested: Contested) -> Mask:
        """The rows that delete their key."""
        return np.zeros(len(contested.rows), dtype=np.bool_)

    def _column_fault(self) -> str | None:
        """The first column whose function cannot take back a value, as ``retraction_fault``; None without one."""
        faults = (self._function(name).retraction_fault for name in self.schema.field_names)
        return next((fault for fault in faults if fault is not None), None)

    @abstractmethod
    def _new_function(self, column: str) -> Aggregate:
        """Makes the function of a column. Raises InvalidOption if it contradicts other options."""


def _by_age(contested: Contested, keys: Mask) -> list[pa.Table]:
    """The rows of these keys before the newest one: the second newest ones, the third newest, …"""
    starts, ends, tables = contested.starts[keys], contested.ends[keys], []
    for number in range(1, int((ends - starts).max(initial=0)) + 1):
        at = (ends - number)[ends - number >= starts]
        tables.append(contested.piece.rows.take(pa.array(contested.rows[at])))
    return tables
