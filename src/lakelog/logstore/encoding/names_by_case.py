"""Names of JSON fields in the spelling of a table's columns: Oracle and DB2 write them in capitals.

Records are searched for other spellings only if a column is NULL in one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.json_rows import distinct
from lakelog.paimon.types.variant import is_variant

_T = TypeVar("_T")
Places = Callable[[Mapping[str, Any]], Iterable[dict[str, Any]]]
"""Function of a parsed record that returns the rows in it."""


def in_own_spelling(values: pa.LargeBinaryArray, schema: pa.Schema, places: Places) -> pa.LargeBinaryArray | None:
    """Records of changes whose rows name the columns of a schema, and the fields of its structs, as it does.

    ``places`` says where the rows of a record are. None if they already do. Raises Corrupt for a row with two fields
    that differ by case only, if neither has the name of the column.
    """
    row = pa.struct(list(schema))
    names = sorted(set(_names(row)))
    if not names:
        return None
    pattern = f'"(?:{"|".join(map(re.escape, names))})"\\s*:'
    exact, any_case = (pc.count_substring_regex(values, pattern, ignore_case=is_any) for is_any in (False, True))
    odd = pc.not_equal(exact, any_case).to_pylist() if all(map(str.isascii, names)) else [True] * len(values)
    texts = [
        _renamed(value, row, places) if is_odd else value for value, is_odd in zip(values.to_pylist(), odd, strict=True)
    ]
    return pa.array(texts, pa.large_binary()) if any(odd) else None


def of_name(values: Mapping[str, _T], name: str, default: _T) -> _T:
    """The value of a name, or of its only other spelling."""
    if name in values:
        return values[name]
    others = [key for key in values if key.lower() == name.lower()]
    if len(others) > 1:
        raise Corrupt(f"the fields '{others[0]}' and '{others[1]}' of a row are both column '{name}'")
    return values[others[0]] if others else default


def _names(kind: pa.DataType) -> Iterator[str]:
    """The names of the fields of structs in a type."""
    for field in (kind.field(at) for at in range(0 if is_variant(kind) else kind.num_fields)):
        if pa.types.is_struct(kind):
            yield field.name
        yield from _names(field.type)


def _renamed(value: bytes, row: pa.DataType, places: Places) -> bytes:
    """One record with the names of its fields replaced; numbers keep their digits."""
    try:
        parsed = json.loads(
            value, object_pairs_hook=distinct, parse_int=_digits, parse_float=_digits, parse_constant=_digits
        )
    except (ValueError, RecursionError):
        return value  # the reader says what is wrong
    if not isinstance(parsed, dict):
        return value
    for image in places(parsed):
        spelled = _spelled(image, row)
        image.clear()
        image.update(spelled)
    return orjson.dumps(parsed)


def _digits(text: str) -> Any:
    return orjson.Fragment(text)


def _spelled(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind) and isinstance(value, dict):
        missing = object()
        fields = {field.name: of_name(value, field.name, missing) for field in kind}
        return {f.name: _spelled(fields[f.name], f.type) for f in kind if fields[f.name] is not missing}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_spelled(item, kind.value_type) for item in value]
    if pa.types.is_map(kind) and isinstance(value, dict):
        return {key: _spelled(item, kind.item_type) for key, item in value.items()}
    if pa.types.is_map(kind) and isinstance(value, list):
        return [_spelled(pair, pa.struct([("key", kind.key_type), ("value", kind.item_type)])) for pair in value]
    return value
