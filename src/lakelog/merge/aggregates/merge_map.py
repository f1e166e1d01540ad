"""Aggregate function ``merge_map``: the entries of all maps in one; a retraction removes keys."""

from __future__ import annotations

from typing import Any, ClassVar

from lakelog.merge.aggregate import ByKey, frozen


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
