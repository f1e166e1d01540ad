"""Compactions that look up what they replace: deletion vectors are written, rows of upper levels are whole values."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import CommitConflict
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.compaction.planner import CompactionResult
from lakelog.filestore.metadata.manifests import DELETION_VECTORS, IndexManifests
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.paimon.schema.schema import TableSchema

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


TOTALS = (("id", "INT NOT NULL"), ("total", "BIGINT"), ("names", "STRING"))
SUMS = {"fields.total.aggregate-function": "sum", "fields.names.aggregate-function": "listagg"}


@pytest.mark.parametrize("how", ["deletion-vectors.enabled", "force-lookup"])
def test_a_row_of_an_upper_level_is_the_whole_value_of_its_key(make_table, how) -> None:
    table = with_options(make_table(columns=TOTALS, merge_engine="aggregation"), {**SUMS, how: "true"})
    table.insert(*((I, i, 100 + i, "base " * 20) for i in range(500)))
    table.store.compact(*PLACE, full=True)
    for n in range(1, 3):
        table.insert((I, 1, n, ""), (I, 900, n, "new"))
        table.store.compact(*PLACE)
        assert levels(table)[0] in (3, 4)
    table.insert((I, 1, 1000, ""))
    if how == "force-lookup":
        assert table.read()[1]["total"] == 1104
    table.store.compact(*PLACE)
    rows = {r["id"]: (r["total"], r["names"]) for r in table.read()}
    assert (rows[1], rows[2], rows[900]) == ((1104, "base " * 20), (102, "base " * 20), (3, "new,new"))
    table.store.compact(*PLACE, full=True)
    assert {r["id"]: (r["total"], r["names"]) for r in table.read()} == rows


@pytest.mark.parametrize("other", ["second", "first"])
def test_a_compaction_that_missed_deletions_is_a_conflict(marked, other) -> None:
    marked.insert((U, 3, "new", 0.0))
    marked.store.compact(*PLACE)
    late = marked.store.run_compaction(*PLACE, full=True)
    marked.insert((D, 7, "", 0.0))
    meanwhile = marked.store.run_compaction(*PLACE)
    made = [meanwhile, late] if other == "first" else [late, meanwhile]
    marked.store.commit(request(made[0]))
    with pytest.raises(CommitConflict):
        marked.store.commit(request(made[1]))
    marked.store.compact(*PLACE, full=True)
    assert marked.ids() == [i for i in range(1000) if i != 7]


def request(made: CompactionResult) -> CommitRequest:
    return CommitRequest(new_uuid(), 1, "COMPACT", (made.files,), index=made.index)


@pytest.mark.parametrize("keys", [("name",), ("id", "name"), ("name", "amount")], ids=lambda names: " and ".join(names))
def test_keys_of_every_kind_are_looked_up(make_table, keys) -> None:
    columns = (("id", "INT NOT NULL"), ("name", "STRING NOT NULL"), ("amount", "DOUBLE"), ("v", "INT"))
    table = make_table(primary_keys=keys, columns=columns, target_file_size="2 kb", deletion_vectors_enabled="true")
    seen: dict[tuple[Any, ...], int] = {}
    for n in range(5):
        rows = [(i, f"n{i * 7 % 1001}", float(i % 5), n) for i in range(n * 3, 3000, 1 + 97 * n)]
        table.insert(*((I, *row) for row in rows))
        table.store.compact(*PLACE)
        for row in rows:
            values = dict(zip(("id", "name", "amount", "v"), row, strict=True))
            seen[tuple(values[k] for k in keys)] = n
        assert {tuple(r[k] for k in keys): r["v"] for r in table.read()} == seen
        assert len(table.read()) == len(seen)
    assert levels(table)[0] < 5


@pytest.mark.parametrize("kind", ["TIMESTAMP(9) NOT NULL", "TIMESTAMP(9) WITH LOCAL TIME ZONE NOT NULL"])
def test_keys_with_nanoseconds_are_looked_up(make_table, kind) -> None:
    columns = (("id", kind), ("v", "INT"))
    table = make_table(columns=columns, target_file_size="2 kb", deletion_vectors_enabled="true")
    table.insert(*((I, i, 0) for i in range(2000)))
    table.store.compact(*PLACE)
    table.insert(*((U, i, 1) for i in range(3, 2000, 500)))
    table.store.compact(*PLACE)
    assert levels(table)[0] == 4
    assert {r["id"].value: r["v"] for r in table.read()} == {i: int(i % 500 == 3) for i in range(2000)}


def test_the_first_row_is_looked_up(make_table) -> None:
    table = make_table(merge_engine="first-row")
    table.insert(*((I, i, f"first {i}", 0.0) for i in range(500)))
    table.store.compact(*PLACE)
    for n in range(3):
        table.insert((I, 1, "again", 0.0), (I, 600 + n, f"first {600 + n}", 0.0), (I, 600, "again", 0.0))
        table.store.compact(*PLACE)
        assert 0 not in levels(table)
    assert [r["name"] for r in table.read()] == [f"first {r['id']}" for r in table.read()]
    assert table.ids() == [*range(500), 600, 601, 602]
