"""Lists and maps taken apart and put together again, also where they are slices of longer columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def fresh_offsets(column: pa.ListArray | pa.MapArray) -> tuple[pa.Array, int, int]:
    """Offsets of a list or map from 0, and the range of its values that they speak of."""
    numbers = column.offsets.to_numpy()
    start, stop = int(numbers[0]), int(numbers[-1])
    return pa.array((numbers - start).astype(np.int32)), start, stop


def map_array(offsets: pa.Array, keys: pa.Array, items: pa.Array, kind: pa.MapType, mask: pa.Array | None) -> pa.Array:
    """A map column from its parts; ``mask`` is true where a row is NULL."""
    pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    lists = pa.ListArray.from_arrays(offsets, pairs, mask=mask)
    return pa.Array.from_buffers(kind, len(lists), lists.buffers()[:2], lists.null_count, 0, [pairs])
