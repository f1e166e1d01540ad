"""Rows that a deletion vector names are not read, whatever is filtered, projected or merged."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Collection
from dataclasses import replace

import pytest
from pyroaring import BitMap, BitMap64

from lakelog.errors import Corrupt, NotFound
from lakelog.filestore.commit.request import CommitRequest, IndexChange
from lakelog.filestore.metadata.manifests import DELETION_VECTORS, IndexManifests
from lakelog.filestore.read.plan import plan_splits, skips_level_zero
from lakelog.filestore.skipping.predicate import Compare, IsNull
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.delegating import ExternalFileIO
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.paimon.metadata.manifest import ADD, DeletionVectorRange, IndexManifestEntry
from lakelog.paimon.schema.schema import TableSchema

NONE = b"\x00" * 12
I = 0  # noqa: E741 - row kind


def payload(positions: list[int], wide: bool) -> bytes:
    if wide:
        return struct.pack("<i", 1681511377) + BitMap64(positions).serialize()
    return struct.pack(">i", 1581511376) + BitMap(positions).serialize()


def delete_rows(
    store: FileStore,
    positions: dict[str, list[int]],
    wide: bool = False,
    external: str | None = None,
    names: Collection[str] = (),
) -> str:
    """Commits an index file with a vector per data file, in place of the index files ``names``; gives its path."""
    name = f"index-{new_uuid()}-0"
    data, ranges = b"\x01", []
    for file, deleted in positions.items():
        body = payload(deleted, wide)
        ranges.append(DeletionVectorRange(file, len(data), len(body) + (8 if wide else 0), len(deleted)))
        data += struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    path = external or store.paths.bucket_index_file(NONE, 0, name)
    (store.io.inner if external else store.io).write(path, data)
    entry = IndexManifestEntry(
        ADD, NONE, 0, "DELETION_VECTORS", name, len(data), len(ranges), tuple(ranges), external_path=external
    )
    store.commit(
        CommitRequest(new_uuid(), 1, "OVERWRITE", index=IndexChange((entry,), frozenset(names)), allow_empty=True)
    )
    return path


def with_options(store: FileStore, **options: str) -> FileStore:
    return FileStore(store.io, store.table_path, replace(store.schema, options={**store.schema.options, **options}))


def files_of(store: FileStore) -> list[DataFileMeta]:
    return sorted((e.file for e in store.live_entries(store.latest_snapshot())), key=lambda f: f.min_sequence_number)


@pytest.fixture
def appended(make_table):
    """Two files of 1,000 rows, with the deleted rows 0, 1, 500 and 999 of the first."""
    table = make_table(primary_keys=())
    table.insert(*((I, i, f"n{i % 10}", float(i)) for i in range(1000)))
    table.insert(*((I, i, f"n{i % 10}", float(i)) for i in range(1000, 2000)))
    return table


GONE = [0, 1, 500, 999]
LEFT = [i for i in range(2000) if i not in GONE]


@pytest.mark.parametrize("wide", [False, True], ids=["32", "64"])
def test_deleted_rows_are_not_read(appended, wide) -> None:
    delete_rows(appended.store, {files_of(appended.store)[0].file_name: GONE}, wide)
    assert appended.ids() == LEFT
    assert appended.ids(snapshot_id=2) == list(range(2000))


@pytest.mark.parametrize(
    "filter",
    [
        Compare("id", ">=", 500),
        Compare("id", "=", 500),
        Compare("name", "=", "n0"),
        Compare("amount", "<", 3.0),
        IsNull("name", expected=False),
    ],
    ids=str,
)
def test_a_filter_moves_no_position(appended, filter) -> None:
    whole = appended.ids(filter)
    delete_rows(appended.store, {files_of(appended.store)[0].file_name: GONE})
    assert appended.ids(filter) == [i for i in whole if i not in GONE]


def test_a_projection_moves_no_position(appended) -> None:
    delete_rows(appended.store, {files_of(appended.store)[0].file_name: GONE})
    store = appended.store
    assert sorted(store.read_table(store.plan(), ["amount"]).column("amount").to_pylist()) == [float(i) for i in LEFT]
    assert sum(b.num_rows for s in store.plan() for b in store.read_split(s, [])) == len(LEFT)


def test_small_batches_count_on(appended) -> None:
    store = appended.store
    delete_rows(store, {files_of(store)[0].file_name: GONE})
    (split,) = store.plan()
    (vector,) = split.vectors
    batches = list(store.files.read(NONE, 0, split.files[0], ["id"], True, vector=vector, batch_rows=7))
    rows = [(r["id"], r["_SEQUENCE_NUMBER"]) for b in batches for r in b.to_pylist()]
    first = split.files[0].min_sequence_number
    assert rows == [(i, first + i) for i in range(1000) if i not in GONE]


def test_splits_carry_the_places_of_vectors_through_pickle(appended) -> None:
    delete_rows(appended.store, {files_of(appended.store)[0].file_name: GONE})
    splits = pickle.loads(pickle.dumps(appended.store.plan()))
    store = pickle.loads(pickle.dumps(appended.store))
    assert store.read_table(splits, ["id"]).num_rows == len(LEFT)


def test_damage_names_the_index_file_and_the_data_file(appended) -> None:
    file = files_of(appended.store)[0].file_name
    path = delete_rows(appended.store, {file: GONE})
    data = bytearray(appended.store.io.read(path))
    data[-6] ^= 0x10
    appended.store.io.write(path, bytes(data))
    with pytest.raises(Corrupt) as told:
        appended.ids()
    assert file in str(told.value)
    assert path in str(told.value)
    appended.store.io.write(path, b"\x02" + bytes(data)[1:])
    with pytest.raises(Corrupt, match="version 02"):
        appended.ids()
    appended.store.io.write(path, bytes(data)[:-3])
    with pytest.raises(Corrupt, match="size"):
        appended.ids()
    appended.store.io.delete(path)
    with pytest.raises(NotFound):
        appended.ids()


def test_vectors_are_next_to_the_data_or_in_a_separate_directory(make_table, appended) -> None:
    old = appended.store
    appended.store = FileStore(ExternalFileIO(old.io.inner, ("/elsewhere",)), old.table_path, old.schema)
    delete_rows(appended.store, {files_of(appended.store)[0].file_name: GONE}, external="/elsewhere/index-1")
    assert appended.ids() == LEFT
    table = make_table(primary_keys=())
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    beside = with_options(table.store, **{"index-file-in-data-file-dir": "true"})
    name = files_of(table.store)[0].file_name
    path = delete_rows(table.store, {name: [0]}, external=None)
    moved = beside.paths.bucket_index_file(NONE, 0, path.rpartition("/")[2])
    assert moved.startswith(table.store.paths.bucket_dir(NONE, 0))
    table.store.io.write(moved, table.store.io.read(path))
    table.store.io.delete(path)
    assert beside.read_table(beside.plan(), ["id"]).to_pylist() == [{"id": 2}]


def keyed_with_levels(make_table) -> FileStore:
    """Ids 1 to 3 in the top level, newer rows of 3 and 4 in level 0."""
    table = make_table()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0), (I, 3, "c", 3.0))
    table.store.compact(NONE, 0, full=True)
    table.insert((I, 3, "newer", 3.0), (I, 4, "d", 4.0))
    return table.store


def rows(store: FileStore) -> list[tuple[int, str]]:
    return sorted((r["id"], r["name"]) for r in store.read_table(store.plan()).to_pylist())


def test_a_keyed_table_with_vectors_shows_level_zero_after_its_compaction_only(make_table) -> None:
    plain = keyed_with_levels(make_table)
    assert rows(plain) == [(1, "a"), (2, "b"), (3, "newer"), (4, "d")]
    store = with_options(plain, **{"deletion-vectors.enabled": "true"})
    assert rows(store) == [(1, "a"), (2, "b"), (3, "c")]
    top = next(f for f in files_of(plain) if f.level > 0)
    delete_rows(plain, {top.file_name: [1]})
    assert rows(store) == [(1, "a"), (3, "c")]
    assert not any(split.needs_merge for split in store.plan())
    merged = with_options(store, **{"deletion-vectors.merge-on-read": "true"})
    assert rows(merged) == [(1, "a"), (3, "newer"), (4, "d")]


def test_files_of_many_levels_need_no_merge_where_vectors_say_what_is_old(make_table) -> None:
    plain = keyed_with_levels(make_table)
    live = plain.live_entries(plain.latest_snapshot())
    lifted = [replace(e, file=e.file.at_level(max(e.file.level, 1))) for e in live]
    schema = with_options(plain, **{"deletion-vectors.enabled": "true"}).schema
    (splits,) = plan_splits(lifted, schema, Pruning(plain.schemas), 1).values()
    assert [s.needs_merge for s in splits] == [False]
    assert len(splits[0].files) == 2


@pytest.mark.parametrize(
    ("options", "keyed", "skips"),
    [
        ({}, True, False),
        ({"deletion-vectors.enabled": "true"}, True, True),
        ({"deletion-vectors.enabled": "true"}, False, False),
        ({"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}, True, False),
    ],
)
def test_only_keyed_tables_with_vectors_skip_level_zero(make_table, options, keyed, skips) -> None:
    schema: TableSchema = make_table().store.schema if keyed else make_table(primary_keys=()).store.schema
    assert skips_level_zero(replace(schema, options={**schema.options, **options})) is skips


def test_a_file_with_many_deleted_rows_is_written_again_without_them(appended) -> None:
    store = appended.store
    one, two = files_of(store)
    delete_rows(store, {one.file_name: list(range(150)), two.file_name: [7]})
    assert store.buckets_to_compact() == []
    delete_rows(store, {one.file_name: list(range(250))}, names=files_with_vectors(store))
    left = appended.ids()
    assert store.buckets_to_compact() == [(NONE, 0)]
    store.compact(NONE, 0)
    assert appended.ids() == left == list(range(250, 2000))
    assert files_with_vectors(store) == set()
    assert store.buckets_to_compact() == []


def test_a_full_compaction_takes_all_files_with_deleted_rows_and_all_small_ones(appended) -> None:
    store = appended.store
    delete_rows(store, {f.file_name: GONE for f in files_of(store)})
    appended.insert((I, 2000, "", 0.0))
    store.compact(NONE, 0, full=True)
    assert appended.ids() == [i for i in range(2001) if i % 1000 not in GONE or i == 2000]
    assert (files_with_vectors(store), len(files_of(store))) == (set(), 1)
    assert store.compact(NONE, 0, full=True) is None


def test_vectors_of_other_files_stay_when_files_are_joined(make_table) -> None:
    appended = make_table(primary_keys=(), bucket="1", bucket_key="id")
    for n in range(2):
        appended.insert(*((I, i, f"n{i % 10}", float(i)) for i in range(1000 * n, 1000 * n + 1000)))
    store = appended.store
    delete_rows(store, {f.file_name: GONE for f in files_of(store)})
    expected = [i for i in range(2000) if i % 1000 not in GONE]
    store.compact(NONE, 0, full=True)
    assert appended.ids() == expected
    assert len(files_with_vectors(store)) == 1
    store.compact(NONE, 0, full=True)
    store.compact(NONE, 0, full=True)
    assert appended.ids() == expected
    assert files_with_vectors(store) == set()
    assert len(files_of(store)) == 1
    assert store.compact(NONE, 0, full=True) is None


def files_with_vectors(store: FileStore) -> set[str]:
    entries = IndexManifests(store.manifests).entries(store.latest_snapshot())
    return {e.file_name for e in entries if e.index_type == DELETION_VECTORS for _ in e.deletion_vectors or ()}
