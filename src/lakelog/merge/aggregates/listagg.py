"""Aggregate function ``listagg``: the texts, joined; NULL and blank ones do not count."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.aggregate import ByKey, counted
from lakelog.merge.steps import ADD_REVERSED, SET, Steps
from lakelog.options.fields import DISTINCT, LIST_DELIMITER

_BLANK: Final = frozenset(
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
"""White space of the format: that of Java."""


class ListAgg(ByKey):
    """Joined with ``list-agg-delimiter``; with ``distinct`` parts that are there already are left out."""

    roots: ClassVar[tuple[str, ...] | None] = ("VARCHAR",)
    retracts: ClassVar[bool] = False

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        if self.options.get(DISTINCT) or (steps.ops == ADD_REVERSED).any():
            return super().fold(column, steps)
        texts = pc.utf8_trim(column, "".join(sorted(_BLANK)))
        is_text = pc.fill_null(pc.not_equal(texts, ""), False).to_numpy(zero_copy_only=False)[steps.rows]
        at, starts, has_any = steps.picked(counted(steps, is_text))
        offsets = pa.array(np.append(starts, len(at)).astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, column.take(pa.array(steps.rows[at])))
        joined = pc.binary_join(lists, self.options.get(LIST_DELIMITER))
        if has_any.all():
            return joined
        # without a text a key keeps what it was set to, if anything
        rest = steps.take(column, steps.last(steps.ops == SET))
        places = np.cumsum(has_any) - 1
        return pa.concat_arrays([joined, rest]).take(
            pa.array(np.where(has_any, places, len(joined) + np.arange(len(has_any))))
        )

    def add(self, accumulator: Any, value: Any) -> Any:
        if _is_blank(value):
            return accumulator
        if _is_blank(accumulator):
            return value
        delimiter: str = self.options.get(LIST_DELIMITER)
        if not self.options.get(DISTINCT):
            return accumulator + delimiter + value
        parts = [accumulator]
        # without a delimiter the format takes white space as one
        seen = set(accumulator.split(delimiter or None))
        for part in value.split(delimiter or None):
            if not _is_blank(part) and part not in seen:
                seen.add(part)
                parts.append(part)
        return delimiter.join(parts)


def _is_blank(text: str | None) -> bool:
    return text is None or set(text) <= _BLANK
