"""Aggregate functions, which fold the values of a column key by key, and merge engines of them (format sheet 8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
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
    keeps_its_row: ClassVar[bool] = False
    """True if a row that comes later, but is older, can only be compared with the row whose value is the result."""

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
        if self.retracts or self.ignore_retract:
            return None
        return (
            f"aggregate function '{self.name}' of column '{self.field.name}' cannot retract values: set "
            f"'fields.{self.field.name}.ignore-retract' = 'true' to skip them"
        )

    def apply(self, column: pa.Array, steps: Steps) -> pa.Array:
        """One value per key: the accumulator after its steps; NULL if it does not fit the column.

        Raises InvalidSchema for a retraction that the function does not support.
        """
        return self.fold(column, self._taken_back(steps))

    def parts(self, column: pa.Array, steps: Steps) -> list[pa.Array]:
        """The values of ``apply``, and arrays of further parts, each of which fits, of results that do not fit."""
        return self.fold_parts(column, self._taken_back(steps))

    def _taken_back(self, steps: Steps) -> Steps:
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

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        return steps.take(column, self.pick(column, steps))

    @abstractmethod
    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        """The step with the result value, for each key; -1: NULL."""

    @property
    def shows_newest(self) -> bool:
        """True if the folded row keeps the newest row's own value where the result is kept apart."""
        return False


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
        if not len(contested.rows):
            return piece.rows_at(piece.newest)
        self._parts.clear()
        folded = self._folded(contested)
        for name, others in self._parts.items():
            does_fit = np.logical_and.reduce([part.is_null().to_numpy(zero_copy_only=False) for part in others])
            if self.refuses_overflow:
                key = {
                    k: contested.column(k).take(pa.array(contested.rows[contested.starts[~does_fit][:1]]))[0].as_py()
                    for k in self.schema.primary_keys
                    if k in piece.rows.column_names
                }
                raise InvalidSchema(
                    f"the values of column '{name}' of key {key} that are written at once have a "
                    f"{self._function(name).name} that does not fit {self.schema.field(name).type.to_json()}: use a "
                    "larger type"
                )
            folded[name] = pc.if_else(pa.array(does_fit), folded[name], pa.scalar(None, folded[name].type))
        return contested.folded(folded)

    @abstractmethod
    def _folded(self, contested: Contested) -> dict[str, pa.Array]:
        """The new values of columns, for contested keys; values of ``_apply``."""

    def fold_new(self, piece: Piece) -> list[pa.Table]:
        contested = Contested.of(piece)
        last = contested.last_removed(self._removes(contested)) if len(contested.rows) else np.empty(0, dtype=np.int64)
        removed = contested.rows[last[(last >= 0) & (last < contested.ends)]]
        return [self.fold(piece), *([piece.rows.take(pa.array(removed))] if len(removed) else [])]

    def fold_apart(self, piece: Piece) -> list[pa.Table]:
        contested = Contested.of(piece)
        if not len(contested.rows):
            return [piece.rows_at(piece.newest)]
        self._parts.clear()
        folded, parts = self._folded(contested), dict(self._parts)
        # a total in a column without NULL would be counted in each row
        totals = [f for f in self.schema.fields if not f.type.nullable and not self._function(f.name).counts_once]
        steps = self._steps(contested) if self.sequence_fields and not totals else None
        removes = self._removes(contested)
        kept, own = [contested.ends], {}
        if steps is not None:
            kept.append(contested.last_removed(removes))
            for name in self.schema.field_names:
                function = self._function(name)
                if isinstance(function, SelectingAggregate) and function.keeps_its_row:
                    column = contested.column(name)
                    kept.append(function.pick(column, steps))
                    if function.shows_newest:
                        newest = column.take(pa.array(contested.rows[contested.ends]))
                        # the folded row adds: a value that its newest row takes back is not its own
                        takes_back = pa.array(contested.is_retract[contested.ends] & ~removes[contested.ends])
                        if self.schema.field(name).type.nullable:
                            newest = pc.if_else(takes_back, pa.scalar(None, newest.type), newest)
                        own[name] = newest
        whole = contested.folded({**folded, **own})
        return [whole, *self._compared(contested, kept), *self._beside(contested, whole, parts)]

    def _compared(self, contested: Contested, kept: Sequence[Indices]) -> Iterator[pa.Table]:
        """The rows at these places of each key (-1: none) except the newest one, which is the first place."""
        places = np.sort(np.column_stack(kept), axis=1)[:, ::-1]
        places[:, 1:][places[:, 1:] == places[:, :-1]] = -1
        places = np.sort(places, axis=1)[:, ::-1]
        for number in range(1, int((places >= 0).any(axis=0).sum())):
            chosen = places[:, number]
            yield self._without_totals(contested.piece.rows.take(pa.array(contested.rows[chosen[chosen >= 0]])))

    def _beside(self, contested: Contested, whole: pa.Table, parts: Mapping[str, list[pa.Array]]) -> Iterator[pa.Table]:
        """Rows with the parts of results that do not fit, older than the folded rows."""
        keys = np.flatnonzero(contested.is_contested)
        oldest = contested.column(SEQUENCE_COLUMN).take(pa.array(contested.rows[contested.starts]))
        for number in range(max(map(len, parts.values()), default=0)):
            here = {name: others[number] for name, others in parts.items() if number < len(others)}
            has_any = np.logical_or.reduce([part.is_valid().to_numpy(zero_copy_only=False) for part in here.values()])
            rows = self._without_totals(whole.take(pa.array(keys[has_any])))
            for name, values in {**here, SEQUENCE_COLUMN: oldest}.items():
                index = rows.schema.get_field_index(name)
                rows = rows.set_column(index, rows.schema.field(index), values.filter(pa.array(has_any)))
            yield rows

    def _without_totals(self, rows: pa.Table) -> pa.Table:
        """Rows in which NULL replaces the values of functions that would count them again."""
        for index, field in enumerate(rows.schema):
            is_own = field.name in (KIND_COLUMN, SEQUENCE_COLUMN, *self.sequence_fields)
            if not is_own and field.nullable and not self._function(field.name).counts_once:
                rows = rows.set_column(index, field, pa.nulls(rows.num_rows, field.type))
        return rows

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
