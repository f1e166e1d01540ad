"""Aggregate functions that put values together, as a text, an array or a map."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidOption
from lakelog.merge.aggregate import ByKey, counted, frozen
from lakelog.merge.steps import ADD_REVERSED, Steps
from lakelog.options.fields import COUNT_LIMIT, DISTINCT, LIST_DELIMITER, NESTED_KEY, NESTED_SEQUENCE_FIELD, split_names
from lakelog.paimon.types.types import ArrayType, DataField, RowType


class ListAgg(ByKey):
    """Joined with ``list-agg-delimiter``; with ``distinct`` repeated parts are skipped.

    Empty texts are skipped if other texts exist, as in Paimon 1.4; its later versions skip all blank ones.
    """

    roots: ClassVar[tuple[str, ...] | None] = ("VARCHAR",)
    retracts: ClassVar[bool] = False
    neutral: ClassVar[Any] = ""

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        if self.options.get(DISTINCT) or (steps.ops == ADD_REVERSED).any():
            return super().fold(column, steps)
        is_text = pc.fill_null(pc.not_equal(column, ""), False).to_numpy(zero_copy_only=False)[steps.rows]
        at, starts, has_any = steps.picked(counted(steps, is_text))
        offsets = pa.array(np.append(starts, len(at)).astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, column.take(pa.array(steps.rows[at])))
        joined = pc.binary_join(lists, self.options.get(LIST_DELIMITER))
        if has_any.all():
            return joined
        rest = steps.take(column, steps.last(counted(steps, steps.valid(column))))
        positions = np.cumsum(has_any) - 1
        return pa.concat_arrays([joined, rest]).take(
            pa.array(np.where(has_any, positions, len(joined) + np.arange(len(has_any))))
        )

    def add(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        if not value or not accumulator:
            return accumulator or value
        delimiter: str = self.options.get(LIST_DELIMITER)
        if not self.options.get(DISTINCT):
            return accumulator + delimiter + value
        parts = [accumulator]
        # without a delimiter the format takes white space as one
        seen = set(accumulator.split(delimiter or None))
        for part in value.split(delimiter or None):
            if part and part not in seen:
                seen.add(part)
                parts.append(part)
        return delimiter.join(parts)


class Collect(ByKey):
    """With ``distinct`` equal elements are kept once. The format does not define the order of the elements."""

    is_order_free: ClassVar[bool] = True
    neutral: ClassVar[Any] = ()
    roots: ClassVar[tuple[str, ...] | None] = ("ARRAY",)

    def add(self, accumulator: Any, value: Any) -> Any:
        if not self.options.get(DISTINCT):
            if accumulator is None or value is None:
                return value if accumulator is None else accumulator
            return [*accumulator, *value]
        if accumulator is None and value is None:
            return None
        return list({frozen(element): element for element in (*(accumulator or ()), *(value or ()))}.values())

    def retract(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or not value:
            return accumulator
        out = [frozen(element) for element in value]
        kept = []
        for element in accumulator:
            if frozen(element) in out:
                out.remove(frozen(element))
            else:
                kept.append(element)
        return kept

    def add_reversed(self, accumulator: Any, value: Any) -> Any:
        return self.add(accumulator, value)


class MergeMap(ByKey):
    """The newest value of each key of the maps. The format does not define the order of the entries."""

    neutral: ClassVar[Any] = ()
    roots: ClassVar[tuple[str, ...] | None] = ("MAP",)

    def add(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return list({frozen(key): (key, entry) for key, entry in (*accumulator, *value)}.values())

    def retract(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or not value:
            return accumulator
        out = {frozen(key) for key, _ in value}
        return [(key, entry) for key, entry in accumulator if frozen(key) not in out]


class NestedUpdate(ByKey):
    """With ``nested-key`` a row replaces the one with its key, else rows are appended, ``count-limit`` at most.

    With ``nested-sequence-field`` it replaces only one that is not newer. A retraction removes the rows with its keys,
    or without keys the equal rows.
    """

    neutral: ClassVar[Any] = ()

    def __init__(self, name: str, field: DataField, options: Mapping[str, str]) -> None:
        super().__init__(name, field, options)
        kind = field.type
        if not (isinstance(kind, ArrayType) and isinstance(kind.element, RowType)):
            raise InvalidOption(
                f"option 'fields.{field.name}.aggregate-function' = '{name}' does not fit column '{field.name}' of "
                f"type {kind.to_json()}: it takes ARRAY<ROW>"
            )
        self._keys = split_names(self.options.get(NESTED_KEY))
        self._ages = split_names(self.options.get(NESTED_SEQUENCE_FIELD))
        self._limit: int = self.options.get(COUNT_LIMIT)

    def add(self, accumulator: Any, value: Any) -> Any:
        if value is None:
            return accumulator
        rows = [row for row in value if row is not None]
        nested = [row for row in accumulator or () if row is not None]
        if not self._keys:
            if accumulator is not None and len(accumulator) >= self._limit:
                return accumulator
            return [*nested, *rows[: self._limit - len(accumulator or ())]]
        by_key: dict[Hashable, Any] = {}
        for row in nested:
            self._put(by_key, row, is_new=False)
        for row in rows:
            self._put(by_key, row, is_new=True)
        return list(by_key.values())

    def retract(self, accumulator: Any, value: Any) -> Any:
        if accumulator is None or value is None:
            return accumulator
        out = {self._key(row) for row in value if row is not None}
        return [row for row in accumulator if row is not None and self._key(row) not in out]

    def _put(self, by_key: dict[Hashable, Any], row: Any, is_new: bool) -> None:
        key = self._key(row)
        if key in by_key:
            if not self._ages or self._age(row) >= self._age(by_key[key]):
                by_key[key] = row
        elif not is_new or len(by_key) < self._limit:
            by_key[key] = row

    def _key(self, row: Any) -> Hashable:
        return frozen([row[name] for name in self._keys] if self._keys else row)

    def _age(self, row: Any) -> tuple[Any, ...]:
        return tuple((row[name] is not None, row[name]) for name in self._ages)
