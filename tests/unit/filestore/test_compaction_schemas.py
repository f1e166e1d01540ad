"""Compactions of a store that was opened before the table was altered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelog.filestore.store import FileStore
from lakelog.paimon.types.types import DataField, parse_type

PLACE = (b"\x00" * 12, 0)
I, U = 0, 2  # noqa: E741 - row kinds
SUMS = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}


def altered(table: Any, options: dict[str, str], *columns: str) -> Any:
    """The table with more options and columns of type INT, as who opens it now has it; ``table`` does not know."""
    store: FileStore = table.store
    old = store.schema
    added = [DataField(old.highest_field_id + n, name, parse_type("INT")) for n, name in enumerate(columns, 1)]
    new = replace(
        old,
        id=old.id + 1,
        fields=(*old.fields, *added),
        highest_field_id=old.highest_field_id + len(added),
        options={**old.options, **options},
    )
    store.io.write(f"{store.paths.branch_root}/schema/schema-{new.id}", new.to_json())
    return type(table)(store.with_newest_schema())


def levels(table: Any) -> set[int]:
    return {e.file.level for e in table.store.live_entries(table.store.latest_snapshot())}


@pytest.mark.parametrize("how", ["deletion-vectors.enabled", "force-lookup"])
def test_what_is_looked_up_keeps_its_new_columns(make_table, how) -> None:
    late = make_table(**SUMS, **{how: "true"})
    table = altered(late, {}, "x")
    table.insert(*((I, i, f"n{i}", 1.0, 7) for i in range(3000)))
    table.store.compact(*PLACE, full=True)
    late.insert((I, 5, None, 2.0))
    late.store.compact(*PLACE)
    assert levels(table) == {4, 5}
    assert table.read()[5] == {"id": 5, "name": "n5", "amount": 3.0, "x": 7}


def test_vectors_are_written_as_soon_as_they_are_switched_on(make_table) -> None:
    late = make_table()
    late.insert(*((I, i, f"n{i}", 1.0) for i in range(20000)))
    late.store.compact(*PLACE, full=True)
    table = altered(late, {"deletion-vectors.enabled": "true"})
    for _ in range(4):
        late.insert((U, 5, "new", 2.0))
        late.store.compact(*PLACE)
    table.store.compact(*PLACE)
    assert levels(table) == {4, 5}
    assert [r["name"] for r in table.read() if r["id"] == 5] == ["new"]
