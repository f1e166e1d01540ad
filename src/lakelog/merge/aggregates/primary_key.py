"""Aggregate function ``primary-key``: the newest value, including retractions; all values of a key column are equal."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from lakelog.merge.aggregate import SelectingAggregate
from lakelog.merge.base import Indices
from lakelog.merge.steps import ADD, RETRACT, SET, Steps


class PrimaryKey(SelectingAggregate):
    """Also used for columns that simply follow the newest row."""

    retracts_in_parts: ClassVar[bool] = True
    is_of_newest: ClassVar[bool] = True
    is_order_free: ClassVar[bool] = True

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops = steps.ops
        return steps.last((ops == ADD) | (ops == SET) | (ops == RETRACT))
