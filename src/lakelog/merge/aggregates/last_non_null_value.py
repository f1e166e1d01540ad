"""Aggregate function ``last_non_null_value``: the newest value that is not NULL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import SelectingAggregate
from lakelog.merge.base import Indices
from lakelog.merge.steps import ADD, ADD_REVERSED, RETRACT, SET, Steps


class LastNonNullValue(SelectingAggregate):
    """A retraction of a value gives NULL, one of NULL does nothing."""

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops, valid = steps.ops, steps.valid(column)
        last = steps.last((valid & ((ops == ADD) | (ops == RETRACT))) | (ops == SET))
        has_value = (last >= 0) & valid[last] & (ops[last] != RETRACT)
        reversed_ = valid & (ops == ADD_REVERSED)
        if not reversed_.any():
            return np.where(has_value, last, -1)
        # an older value counts only where there is none
        later = np.arange(len(ops)) > np.repeat(last, steps.sizes)
        return np.where(has_value, last, steps.first(reversed_ & later))
