"""What is left out of files is found once for as long as nothing changes, in bounded memory."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from typing import Any

import pytest

from lakelog.errors import NotFound
from lakelog.filestore.read.native_files import NativeFile, pick_native
from lakelog.filestore.store import FileStore
from lakelog.spark.native.position_filter import SupersededRowsCache
from unit.filestore.test_deletion_vectors import delete_rows, files_of
from unit.filestore.test_inline_runs import PLACE, ipc

I, U, D = 0, 2, 3  # noqa: E741 - row kinds


def natives(store: FileStore, **plan: Any) -> list[NativeFile]:
    found = pick_native(store.plan(**plan), ["id"], store.schemas, store.paths)
    return [file for files in found.files.values() for file in files]


def words(hidden: SupersededRowsCache, store: FileStore, **plan: Any) -> list[list[int]]:
    found = hidden.of_files(store.files, natives(store, **plan))
    return [found[f.file_name].words.tolist() for f in files_of(store) if f.file_name in found]


def test_rows_that_are_replaced_or_deleted_are_found_once(make_table) -> None:
    table, hidden = make_table(), SupersededRowsCache()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0), (I, 3, "c", 3.0))
    table.insert((U, 1, "A", 1.0), (D, 2, "b", 2.0))
    assert words(hidden, table.store) == [[0b011], [0b10]]
    planned = natives(table.store)
    for file in files_of(table.store):
        table.store.io.delete(table.store.paths.data_file(*PLACE, file))
    assert len(hidden.of_files(table.store.files, planned)) == 2


def test_rows_in_no_file_and_ignored_deletes_are_distinguished(make_table) -> None:
    table, hidden = make_table(), SupersededRowsCache()
    table.insert((I, 1, "a", 1.0), (I, 2, "b", 2.0), (I, 3, "c", 3.0))
    table.insert((D, 2, "b", 2.0), (U, 4, "d", 1.0))
    run = {PLACE: [ipc(table, (U, 3, "C", 9.0))]}
    assert words(hidden, table.store) == [[0b010], [0b01]]
    assert words(hidden, table.store, extra_runs=run) == [[0b110], [0b01]]
    schema = replace(table.store.schema, options={**table.store.schema.options, "ignore-delete": "true"})
    assert words(hidden, replace(table.store, schema=schema)) == [[0b01]]


def test_rows_in_no_file_are_not_kept(make_table) -> None:
    table, hidden = make_table(), SupersededRowsCache()
    table.insert((I, 1, "a", 1.0))
    run = ipc(table, *((U, at, random.randbytes(50).hex(), 1.0) for at in range(1, 500)))
    assert words(hidden, table.store, extra_runs={PLACE: [run]}) == [[0b1]]
    assert len(run) > 20_000 > sum(len(pickle.dumps(held)) for held in hidden._held.items())


def test_a_vector_names_rows_of_its_file_and_files_without_are_whole(make_table) -> None:
    table, hidden = make_table(primary_keys=()), SupersededRowsCache()
    table.insert(*((I, at, "a", 1.0) for at in range(70)))
    table.insert((I, 3, "c", 3.0))
    delete_rows(table.store, {files_of(table.store)[0].file_name: [1, 64]})
    assert words(hidden, table.store) == [[0b10, 0b1]]


def test_what_was_used_longest_ago_is_dropped_first(make_table) -> None:
    table = make_table(("name", "id"), ("name",))
    for name in ("x", "y", "z"):
        table.insert((I, 1, name, 1.0))
        table.insert((U, 1, name, 2.0))
    by_partition: dict[bytes, list[NativeFile]] = {}
    for file in natives(table.store):
        by_partition.setdefault(file.merged.partition, []).append(file)
    x, y, z = by_partition.values()
    hidden = SupersededRowsCache(most_bytes=32)  # two words a partition, of 8 bytes
    for files in (x, y, x, z):
        hidden.of_files(table.store.files, files)
    for file in (*x, *y, *z):
        table.store.io.delete(file.path)
    assert [len(hidden.of_files(table.store.files, files)) for files in (x, z)] == [1, 1]
    with pytest.raises(NotFound):
        hidden.of_files(table.store.files, y)
