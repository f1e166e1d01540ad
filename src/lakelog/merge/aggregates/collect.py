"""Aggregate function ``collect``: the elements of all arrays in one; a retraction removes elements."""

from __future__ import annotations

from typing import Any, ClassVar

from lakelog.merge.aggregate import ByKey, frozen
from lakelog.options.fields import DISTINCT


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
