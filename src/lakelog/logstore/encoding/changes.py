"""Changes of rows by columns, as the decoders of log formats find them in records, and the rows that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.connect_columns import Meaning, converted, from_objects
from lakelog.logstore.encoding.json_rows import parsed_column
from lakelog.logstore.encoding.names_by_case import Places, in_own_spelling
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE

CREATED: Final = 0
UPDATED: Final = 1
DELETED: Final = 2
READ: Final = 3
NOTHING: Final = 4
"""What a change does to its row: the codes of ``Changes.op``. ``READ`` is a row of a first copy."""

Image = Mapping[str, Any] | None
"""One parsed row of a change: the name of a field → its JSON value."""


@dataclass(frozen=True)
class Changes:
    """Changes with both images (structs of the table's columns), and what each does (int8)."""

    before: pa.StructArray
    after: pa.StructArray
    op: np.ndarray


def no_changes(count: int, schema: pa.Schema) -> Changes:
    """Those of records that change no row."""
    nothing = pa.nulls(count, pa.struct(list(schema)))
    return Changes(nothing, nothing, np.full(count, NOTHING))


def in_order(parts: Sequence[Changes], positions: Sequence[np.ndarray]) -> Changes:
    """One from parts (at least one); ``positions`` are the places of each part's records among all."""
    order = pa.array(np.argsort(np.concatenate(positions), kind="stable"))
    before, after = (pa.concat_arrays([getattr(part, name) for part in parts]) for name in ("before", "after"))
    op = np.concatenate([part.op for part in parts])
    return Changes(before.take(order), after.take(order), op[order.to_numpy()])


def read_by_case(
    values: pa.LargeBinaryArray,
    schema: pa.Schema,
    places: Places,
    read: Callable[[pa.LargeBinaryArray], Changes],
) -> Changes:
    """The changes of JSON records; a second time with other spellings of the columns, if some are NULL at first.

    ``places`` says where a parsed record has its rows. Raises Corrupt.
    """
    changes = read(values)
    is_odd = _has_null(changes.before) or _has_null(changes.after)
    renamed = in_own_spelling(values, schema, places) if is_odd else None
    return changes if renamed is None else read(renamed)


def _has_null(images: pa.StructArray) -> bool:
    """Whether a column may be NULL in an image; a nested one always may."""
    parts = [images.field(at) for at in range(images.type.num_fields)]
    return any(pa.types.is_nested(part.type) or part.null_count > images.null_count for part in parts)


def image_of(image: pa.StructArray, schema: pa.Schema, meanings: Sequence[Meaning], name: str) -> pa.StructArray:
    """Rows from a struct of raw values. A column that it does not have is NULL. Raises Corrupt, which names the field.

    ``meanings`` are those of the columns of ``schema``.
    """
    columns, parts = [], image.flatten()  # NULL where the image is
    for field, meaning in zip(schema, meanings, strict=True):
        at = image.type.get_field_index(field.name)
        raw = pa.nulls(len(image)) if at < 0 else parts[at]
        columns.append(converted(raw, field.type, meaning, f"{name}.{field.name}"))
    return struct_of(columns, schema, image.is_null())


def image_of_objects(
    rows: Sequence[Image], schema: pa.Schema, meanings: Sequence[Meaning], name: str
) -> pa.StructArray:
    """Rows from parsed JSON objects (None: no row), of any mix of types, as ``image_of``."""
    wrong = next((row for row in rows if row is not None and not isinstance(row, dict)), None)
    if wrong is not None:
        raise Corrupt(f"field '{name}' is {wrong!r}, not an object with the fields of a row")
    columns = [
        from_objects([None if row is None else row.get(f.name) for row in rows], f.type, meaning, f"{name}.{f.name}")
        for f, meaning in zip(schema, meanings, strict=True)
    ]
    return struct_of(columns, schema, pa.array([row is None for row in rows], pa.bool_()))


def struct_of(columns: Sequence[pa.Array], schema: pa.Schema, nulls: pa.BooleanArray) -> pa.StructArray:
    """Columns as one array of rows; a struct without columns has a length, too."""
    fields = [pa.field(f.name, f.type) for f in schema]
    if fields:
        return pa.StructArray.from_arrays(columns, fields=fields, mask=nulls)
    return pa.array([None if null else {} for null in nulls.to_pylist()], pa.struct([]))


def changed_rows(changes: Changes, schema: pa.Schema) -> pa.Table:
    """The rows (``schema`` and ``_row_kind``) of changes. Raises Corrupt for a change without its image."""
    before, after, op = changes.before, changes.after, changes.op
    there, here = (image.is_valid().to_numpy(zero_copy_only=False) for image in (before, after))
    adds = (op == CREATED) | (op == READ) | (op == UPDATED)
    if (adds & ~here).any():
        raise Corrupt("field 'after' (the new row) is missing")
    if ((op == DELETED) & ~there).any():
        raise Corrupt(
            "field 'before' of a delete is missing: the source has to send at least the key (PostgreSQL: ALTER TABLE … "
            "REPLICA IDENTITY DEFAULT or FULL)"
        )
    removed = np.flatnonzero(there & ((op == UPDATED) | (op == DELETED)))
    added = np.flatnonzero(adds)
    kinds = np.concatenate(
        [
            np.where(op[removed] == UPDATED, UPDATE_BEFORE, DELETE),
            np.where(op[added] == UPDATED, UPDATE_AFTER, INSERT),
        ]
    )
    order = np.argsort(np.concatenate([removed * 2, added * 2 + 1]), kind="stable")
    columns = []
    for index, field in enumerate(schema):
        if len(removed):
            parts = [before.field(index).take(pa.array(removed)), after.field(index).take(pa.array(added))]
            column = pa.concat_arrays(parts).take(pa.array(order))
        else:
            column = after.field(index) if len(added) == len(op) else after.field(index).take(pa.array(added))
        columns.append(parsed_column(column, field.type))
    names = pa.array(NAMES).take(pa.array(kinds[order]))
    return pa.Table.from_arrays([*columns, names], names=[*schema.names, ROW_KIND_COLUMN])
