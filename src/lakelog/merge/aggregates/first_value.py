"""Aggregate function ``first_value``: the oldest value, NULL too."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import SelectingAggregate
from lakelog.merge.base import Indices
from lakelog.merge.steps import ADD, ADD_REVERSED, SET, Steps


class FirstValue(SelectingAggregate):
    """Values after the first count only when they are older."""

    retracts: ClassVar[bool] = False

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops = steps.ops
        added = (ops == ADD) | (ops == ADD_REVERSED)
        first = np.repeat(steps.first(added), steps.sizes) == np.arange(len(ops))
        # the first value counts even after a SET; an older one replaces it, but not when it is the first itself
        return steps.last((ops == SET) | (first & (ops == ADD)) | (~first & (ops == ADD_REVERSED)))
