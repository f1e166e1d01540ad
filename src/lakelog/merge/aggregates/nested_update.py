"""Aggregate function ``nested_update``: an array of rows as a small nested table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from lakelog.errors import InvalidOption
from lakelog.merge.aggregate import ByKey, frozen
from lakelog.options.fields import COUNT_LIMIT, NESTED_KEY, NESTED_SEQUENCE_FIELD, split_names
from lakelog.paimon.types.types import ArrayType, DataField, RowType


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
        held = [row for row in accumulator or () if row is not None]
        if not self._keys:
            if accumulator is not None and len(accumulator) >= self._limit:
                return accumulator
            return [*held, *rows[: self._limit - len(accumulator or ())]]
        by_key: dict[Hashable, Any] = {}
        for row in held:
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
