"""The default of a column: text in the schema file, a value wherever a written row has NULL (format sheet 3)."""

from __future__ import annotations

import re

import pyarrow as pa

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.text_decimals import cast_text
from lakelog.paimon.types.types import AtomicType, DataField


def default_text(field: DataField) -> str | None:
    """The text of the default, without single quotes around it; None for a column without one."""
    text = field.default_value
    return text[1:-1] if text is not None and re.fullmatch("'.*'", text, re.DOTALL) else text


def default_scalar(field: DataField) -> pa.Scalar | None:
    """The default as a value of the column's type; None for a column without one.

    The text may be in single quotes. Raises InvalidSchema with column, text and type for any other text:
    nested types and TIMESTAMP WITH LOCAL TIME ZONE, whose text would need a zone, have no defaults.
    """
    text = default_text(field)
    if text is None:
        return None
    if isinstance(field.type, AtomicType) and field.type.root != "TIMESTAMP_LTZ":
        try:
            return cast_text(pa.array([text], pa.string()), arrow_type(field.type))[0]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    raise InvalidSchema(
        f"'{text}' cannot be the default of column '{field.name}' of type {field.type.to_json()}: "
        f"write a value of this type as text, such as '0', '2024-01-31' or 'none'"
    )
