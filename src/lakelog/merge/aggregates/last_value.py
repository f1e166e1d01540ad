"""Aggregate function ``last_value``: the newest value, NULL too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import SelectingAggregate
from lakelog.merge.base import Indices
from lakelog.merge.steps import ADD, RETRACT, SET, Steps


class LastValue(SelectingAggregate):
    """A retraction gives NULL."""

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops = steps.ops
        last = steps.last((ops == ADD) | (ops == SET) | (ops == RETRACT))
        return np.where((last >= 0) & (ops[last] != RETRACT), last, -1)
