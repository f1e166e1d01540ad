"""What happened to keys, told as changelog rows; when values are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidOption
from lakelog.merge.changes import change_rows, compared_columns, equal
from lakelog.paimon.rows.row_kind import NAMES
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import parse_type

Row = tuple[str, int, int, str]
"""Kind, sequence number, key, value."""

FIELDS = [("k", parse_type("INT NOT NULL"), None), ("v", parse_type("STRING"), None)]


def table(rows: Sequence[Row | None]) -> tuple[pa.Table, np.ndarray]:
    held = [row for row in rows if row is not None]
    columns = {
        "k": pa.array([row[2] for row in held], pa.int32()),
        "v": pa.array([row[3] for row in held], pa.string()),
        "_SEQUENCE_NUMBER": pa.array([row[1] for row in held], pa.int64()),
        "_VALUE_KIND": pa.array([NAMES.index(row[0]) for row in held], pa.int8()),
    }
    return pa.table(columns), np.array([row is not None for row in rows], dtype=np.bool_)


def told(before: Sequence[Row | None], after: Sequence[Row | None], compared: Sequence[str] | None = None) -> list[Row]:
    (old, has_before), (new, has_after) = table(before), table(after)
    found = change_rows(old, new, has_before, has_after, compared)
    assert found.schema == old.schema
    rows = zip(*(found.column(name).to_pylist() for name in found.column_names), strict=True)
    return [(NAMES[kind], sequence, key, value) for key, value, sequence, kind in rows]


def test_changes_are_emitted_in_key_order_with_the_old_row_first() -> None:
    before = [None, ("+I", 2, 2, "old"), ("+U", 3, 3, "gone"), None, ("-D", 5, 5, "dead"), ("+I", 6, 6, "lost")]
    after = [
        ("+U", 11, 1, "new"),
        ("+I", 12, 2, "new"),
        ("-D", 13, 3, "any"),
        ("-U", 14, 4, "never there"),
        ("+I", 15, 5, "back"),
        None,
    ]
    assert told(before, after) == [
        ("+I", 11, 1, "new"),
        ("-U", 2, 2, "old"),
        ("+U", 12, 2, "new"),
        ("-D", 3, 3, "gone"),
        ("+I", 15, 5, "back"),
        ("-D", 6, 6, "lost"),
    ]


def test_no_change_is_emitted_for_keys_that_stay_absent() -> None:
    assert told([None, ("-D", 1, 2, "x")], [("-D", 3, 1, "x"), ("-U", 4, 2, "x")]) == []
    assert told([], []) == []


def test_an_update_without_effect_is_emitted_unless_columns_are_compared() -> None:
    before = [("+I", 1, 1, "same"), ("+I", 2, 2, "old")]
    after = [("+I", 3, 1, "same"), ("+I", 4, 2, "new")]
    changed = [("-U", 2, 2, "old"), ("+U", 4, 2, "new")]
    assert told(before, after) == [("-U", 1, 1, "same"), ("+U", 3, 1, "same"), *changed]
    assert told(before, after, ["k", "v"]) == changed
    assert told(before, after, ["k"]) == []


def test_the_compared_columns_follow_from_the_options() -> None:
    def columns(**options: str) -> tuple[str, ...] | None:
        given = {f"changelog-producer.{key.replace('_', '-')}": value for key, value in options.items()}
        return compared_columns(new_schema(FIELDS, ["k"], [], given))

    assert columns() is None
    assert columns(row_deduplicate="true") == ("k", "v")
    assert columns(row_deduplicate="true", row_deduplicate_ignore_fields="v") == ("k",)
    with pytest.raises(InvalidOption, match="row-deduplicate-ignore-fields' = 'w': the table has no column 'w'"):
        columns(row_deduplicate="true", row_deduplicate_ignore_fields="w")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pa.array([1, None, None, 2]), pa.array([1, None, 3, 3]), [True, True, False, False]),
        (pa.array([float("nan"), 0.0, 1.5]), pa.array([float("nan"), -0.0, 1.5]), [True, False, True]),
        (pa.array([float("nan"), None], pa.float32()), pa.array([float("nan"), 1.0], pa.float32()), [True, False]),
        (pa.array([[1], None, [2]]), pa.array([[1], None, [3]]), [True, True, False]),
        (pa.array([{"a": 1}, {"a": None}]), pa.array([{"a": 2}, {"a": None}]), [False, True]),
    ],
)
def test_values_are_the_same_bit_by_bit(one: pa.Array, other: pa.Array, expected: list[bool]) -> None:
    assert equal(pa.chunked_array([one]), pa.chunked_array([other])).tolist() == expected
