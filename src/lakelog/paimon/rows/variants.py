"""``lakelog.variant``: VARIANT columns in Arrow from and to JSON texts, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.paimon.types.variant import VARIANT, from_json_texts, json_texts
from lakelog.paimon.types.variant_bytes import to_python


class Variant:
    """VARIANT columns of Arrow: ``lakelog.variant.from_json``, ``to_json``, ``to_python``."""

    TYPE: ClassVar[pa.DataType] = VARIANT
    """The Arrow type: a struct of the binary parts ``value`` and ``metadata``, with Spark's mark of a VARIANT."""

    @staticmethod
    def from_json(texts: pa.Array | pa.ChunkedArray | Iterable[str | None]) -> pa.Array:
        """A VARIANT column of JSON texts; None or NULL is NULL, and the text ``null`` is a value.

        Numbers without an exponent are integers or decimals of at most 38 digits, as in Spark's ``parse_json``. Raises
        InvalidRequest for text that is not JSON.
        """
        column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        return from_json_texts(column if isinstance(column, pa.Array) else pa.array(list(column), pa.string()))

    @staticmethod
    def to_json(column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The JSON texts of a VARIANT column. Raises InvalidRequest for another column, Corrupt for malformed bytes."""
        return json_texts(_whole(column))

    @staticmethod
    def to_python(column: pa.Array | pa.ChunkedArray) -> list[Any]:
        """The values of a VARIANT column as dicts, lists and scalars; NULL and JSON's ``null`` are None.

        Raises InvalidRequest for another column, Corrupt for malformed bytes.
        """
        values = _whole(column).to_pylist()
        return [None if one is None else to_python(one["value"], one["metadata"]) for one in values]


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.type != VARIANT:
        raise InvalidRequest(f"a column of type {column.type} is no VARIANT: give one of a table, or of from_json")
    return array
