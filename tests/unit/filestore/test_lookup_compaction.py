"""Compactions that look up what they replace: deletion vectors are written, rows of upper levels are whole values."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.filestore.index_manifests import DELETION_VECTORS, IndexManifests
from lakelog.filestore.store import FileStore
from lakelog.spec.schema import TableSchema

PLACE = (b"\x00" * 12, 0)
I, U, D = 0, 2, 3  # noqa: E741 - row kinds


def with_options(table: Any, options: dict[str, str]) -> Any:
    old = table.store.schema
    given = {**old.options, **options}
    schema = TableSchema(old.id, old.fields, old.highest_field_id, old.partition_keys, old.primary_keys, given)
    return type(table)(FileStore(table.store.io, table.store.table_path, schema))


def vectors_of(table: Any) -> dict[str, int]:
    """Data file → number of its deleted rows."""
    entries = IndexManifests(table.store.manifests).entries(table.store.latest_snapshot())
    held = [e for e in entries if e.index_type == DELETION_VECTORS]
    assert len(held) <= 1
    return {r.data_file: r.cardinality for e in held for r in e.deletion_vectors}


def levels(table: Any) -> list[int]:
    return sorted(e.file.level for e in table.store.live_entries(table.store.latest_snapshot()))


@pytest.fixture(params=["false", "true"], ids=["32", "64"])
def marked(make_table, request):
    """1,000 rows on the highest level, with deletion vectors."""
    table = make_table(deletion_vectors_enabled="true")
    table = with_options(table, {"deletion-vectors.bitmap64": request.param})
    table.insert(*((I, i, f"n{i % 10}", float(i)) for i in range(1000)))
    table.store.compact(*PLACE)
    return table


def test_a_compaction_of_level_zero_marks_what_it_replaces(marked) -> None:
    assert levels(marked) == [5]
    marked.insert((U, 3, "new", 0.0), (D, 7, "n7", 7.0), (I, 2000, "more", 0.0), (D, 5000, "", 0.0))
    assert len(marked.ids()) == 1000
    marked.store.compact(*PLACE)
    assert levels(marked) == [4, 5]
    assert list(vectors_of(marked).values()) == [2]
    assert marked.ids() == [i for i in (*range(1000), 2000) if i != 7]
    assert marked.read()[3]["name"] == "new"
    assert not any(s.needs_merge for s in marked.store.plan())


def test_keys_go_and_come_back_over_several_levels(marked) -> None:
    for n in range(4):
        marked.insert(*((U if n % 2 else D, i, f"round {n}", 0.0) for i in range(n, 100, 3)))
        marked.store.compact(*PLACE)
        assert 0 not in levels(marked)
    expected: dict[int, str] = {i: f"n{i % 10}" for i in range(1000)}
    for n in range(4):
        for i in range(n, 100, 3):
            expected.pop(i, None)
            if n % 2:
                expected[i] = f"round {n}"
    assert {r["id"]: r["name"] for r in marked.read()} == expected


def test_a_full_compaction_purges_the_vectors(marked) -> None:
    marked.insert((U, 3, "new", 0.0), (D, 7, "n7", 7.0))
    marked.store.compact(*PLACE)
    before = marked.read()
    marked.store.compact(*PLACE, full=True)
    assert (vectors_of(marked), levels(marked)) == ({}, [5])
    assert marked.read() == before
    assert marked.store.compact(*PLACE, full=True) is None


def test_a_delete_of_the_last_level_is_purged_by_itself(marked) -> None:
    marked.insert((D, 7, "n7", 7.0))
    marked.store.compact(*PLACE)
    assert levels(marked) == [5]
    assert list(vectors_of(marked).values()) == [1]
    marked.store.compact(*PLACE, full=True)
    assert (vectors_of(marked), levels(marked)) == ({}, [5])
    assert marked.ids() == [i for i in range(1000) if i != 7]
