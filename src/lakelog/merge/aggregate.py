"""Aggregate functions, which fold the values of a column key by key, and merge engines of them (format sheet 8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InternalError, InvalidOption, InvalidSchema
from lakelog.merge.base import Indices, Mask, MergeEngine
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
        """One value per key: the accumulator after its steps.

        Raises InvalidSchema for a retraction that the function does not support.
        """
        is_retract = steps.ops == RETRACT
        if is_retract.any():
            if self.ignore_retract:
                steps = steps.with_ops(np.where(is_retract, SKIP, steps.ops).astype(np.uint8))
            elif not self.retracts:
                raise InvalidSchema(f"there are rows of kind -U or -D, but {self.retraction_fault}")
        return self.fold(column, steps)

    @abstractmethod
    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        """Like ``apply``, with retractions only if the function supports them."""


class SelectingAggregate(Aggregate):
    """A function whose result is one of the values."""

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        return steps.take(column, self.pick(column, steps))

    @abstractmethod
    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        """The step with the result value, for each key; -1: NULL."""


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

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self._functions: dict[str, Aggregate] = {}

    def check_options(self) -> None:
        super().check_options()
        for name in self.schema.field_names:
            self._function(name)

    def _function(self, column: str) -> Aggregate:
        """The function of a column, made once."""
        if column not in self._functions:
            self._functions[column] = self._new_function(column)
        return self._functions[column]

    def _column_fault(self) -> str | None:
        """The first column whose function cannot take back a value, as ``retraction_fault``; None without one."""
        faults = (self._function(name).retraction_fault for name in self.schema.field_names)
        return next((fault for fault in faults if fault is not None), None)

    @abstractmethod
    def _new_function(self, column: str) -> Aggregate:
        """Makes the function of a column. Raises InvalidOption if it contradicts other options."""
