"""Branches share data files, and what is kept of them for lookups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakelog.filestore.store import FileStore
from lakelog.paimon.types.types import DataField, parse_type

PLACE = (b"\x00" * 12, 0)
I, U = 0, 2  # noqa: E741 - row kinds


def with_column(table: Any, store: FileStore, kind: str) -> Any:
    """The table on a branch, with one more column there."""
    old = store.schema
    added = DataField(old.highest_field_id + 1, "x", parse_type(kind))
    new = replace(old, id=old.id + 1, fields=(*old.fields, added), highest_field_id=added.id)
    store.io.write(f"{store.paths.branch_root}/schema/schema-{new.id}", new.to_json())
    return type(table)(store.with_newest_schema())


def test_a_copy_of_one_branch_is_not_read_with_the_columns_of_another(make_table) -> None:
    table = make_table(**{"changelog-producer": "lookup"})
    table.insert(*((I, i, f"n{i}", 1.0) for i in range(5000)))
    table.store.compact(*PLACE)
    table.store.branches.create("dev", snapshot_id=2)
    main, dev = with_column(table, table.store, "INT"), with_column(table, table.store.open_branch("dev"), "STRING")
    for key in (1, 2, 3):
        main.insert((U, key, "main", 2.0, 7))
        main.store.compact(*PLACE)
    dev.insert((U, 4, "dev", 2.0, "text"))
    dev.store.compact(*PLACE)
    assert [(r["name"], r["x"]) for r in dev.read()[3:5]] == [("n3", None), ("dev", "text")]
    assert [(r["name"], r["x"]) for r in main.read()[3:5]] == [("main", 7), ("n4", None)]
