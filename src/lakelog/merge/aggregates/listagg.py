"""Aggregate function ``listagg``: the texts, joined; NULL and empty ones do not count."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.aggregate import ByKey, counted
from lakelog.merge.steps import ADD_REVERSED, Steps
from lakelog.options.fields import DISTINCT, LIST_DELIMITER


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
