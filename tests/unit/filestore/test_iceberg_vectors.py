"""The rows and row numbers that a reader of Iceberg metadata of version 3 finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import iceberg_tables
from iceberg_reader import IcebergReader
from iceberg_tables import TABLES, make, nested_evolution, numbers, open_lake, plain, write
from iceberg_vector_tables import (
    ON,
    VECTOR_TABLES,
    VERSION_3,
    delete_keys,
    delete_rows,
    deletes,
    keyed_vectors,
    many_deletes,
    updates,
    upgraded,
)
from lakelog.errors import InvalidOption
from lakelog.filestore.iceberg.manifests import IcebergFiles
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

Numbers = dict[str, range]

WITH_SPARK_LAST = [
    *(table for table in VECTOR_TABLES if table is not updates),
    pytest.param(updates, marks=pytest.mark.slow),  # its statements run on Spark
]


def reader_of(table: Table) -> IcebergReader:
    store = table.logical.store
    return IcebergReader(store.io, store.table_path)


def check(table: Table) -> IcebergReader:
    """Checks that each Iceberg snapshot has the rows that a scan finds, and that no other file is left."""
    reader = reader_of(table)
    assert plain(reader.rows()) == plain(table.scan().to_arrow().to_pylist())
    tags = {tag.name: tag.snapshot.id for tag in table.tags()}
    assert reader.tags == tags
    for at in reader.snapshots:
        by_tag = next((name for name, n in tags.items() if n == at), None)
        scan = table.scan(tag=by_tag) if by_tag else table.scan(snapshot_id=at)
        assert plain(reader.rows(at)) == plain(scan.to_arrow().to_pylist())
    directory = Path(table.path) / "metadata"
    assert {path.name for kind in ("avro", "puffin") for path in directory.glob(f"*.{kind}")} == reader.named
    return reader


def check_numbers(reader: IcebergReader, seen: Numbers) -> None:
    """Checks that rows keep their numbers, and that no number is used twice; ``seen`` has those of earlier checks."""
    for at in reader.snapshots:
        for name, found in reader.row_numbers(at).items():
            assert seen.setdefault(name, found) == found
        snapshot = reader.snapshots[at]
        assert snapshot["first-row-id"] + snapshot["added-rows"] <= reader.metadata["next-row-id"]
    ordered = sorted(seen.values(), key=lambda r: r.start)
    assert all(a.stop <= b.start for a, b in itertools.pairwise(ordered))
    assert ordered[-1].stop <= reader.metadata["next-row-id"]


@pytest.mark.parametrize("fill", WITH_SPARK_LAST, ids=lambda fill: fill.__name__)
def test_each_snapshot_has_the_rows_of_a_scan_and_each_row_a_number(
    fill: Callable[[Lake], Table], tmp_path: Path
) -> None:
    table = fill(open_lake(tmp_path))
    reader = check(table)
    assert reader.metadata["format-version"] == 3
    check_numbers(reader, {})


@pytest.mark.parametrize("fill", [t for t in TABLES if t is not nested_evolution], ids=lambda fill: fill.__name__)
def test_tables_without_vectors_have_the_same_rows_in_version_3(
    fill: Callable[[Lake], Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_tables, "ON", f"{iceberg_tables.ON}, {VERSION_3}")
    table = fill(open_lake(tmp_path))
    reader = reader_of(table)
    assert reader.metadata["format-version"] == 3
    assert plain(reader.rows()) == plain(table.scan().to_arrow().to_pylist())
    check_numbers(reader, {})


def test_a_vector_that_did_not_change_has_no_new_file(tmp_path: Path) -> None:
    table = many_deletes(open_lake(tmp_path))
    puffins = [{e["data_file"]["file_path"] for e in reader_of(table).deletes(at)} for at in reader_of(table).snapshots]
    assert puffins[-2] <= puffins[-1]
    assert len(puffins[-1] - puffins[-2]) == 1


def test_a_table_without_new_commits_is_upgraded_by_the_next_change_of_a_tag(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    table = make(lake, "id int, name string")
    for n in range(3):
        write(table, *numbers(n, 2))
    uuid = reader_of(table).metadata["table-uuid"]
    lake.sql(f"alter table db.t set tblproperties ({VERSION_3})")
    table = lake.table("db.t")
    table.create_tag("now")
    reader = check(table)
    assert (reader.metadata["format-version"], reader.metadata["table-uuid"]) == (3, uuid)
    assert list(reader.snapshots) == [1, 2, 3]
    check_numbers(reader, {})


def test_going_back_to_version_2_makes_another_iceberg_table(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    table = make(lake, "id int, name string", options=VERSION_3)
    write(table, *numbers(0, 5))
    uuid = reader_of(table).metadata["table-uuid"]
    lake.sql("alter table db.t set tblproperties ('metadata.iceberg.format-version' = '2')")
    table = lake.table("db.t")
    write(table, *numbers(5, 5))
    reader = check(table)
    assert reader.metadata["format-version"] == 2
    assert "next-row-id" not in reader.metadata
    assert reader.metadata["table-uuid"] != uuid


def test_a_writer_that_opened_the_table_before_the_alter_keeps_the_new_version(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    old = make(lake, "id int, name string")
    write(old, *numbers(0, 5))
    lake.sql(f"alter table db.t set tblproperties ({VERSION_3})")
    write(lake.table("db.t"), *numbers(5, 5))
    write(old, *numbers(10, 5))
    reader = check(lake.table("db.t"))
    assert reader.metadata["format-version"] == 3
    check_numbers(reader, {})


@pytest.mark.parametrize("broken", ["*.metadata.json", "version-hint.text", "*-d0.avro", "*-m0.avro", "snap-*.avro"])
def test_a_broken_file_is_replaced(broken: str, tmp_path: Path) -> None:
    table = deletes(open_lake(tmp_path))
    for path in (Path(table.path) / "metadata").glob(broken):
        path.write_text("nonsense")
    delete_rows(table.logical, 1)
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


def test_a_moved_table_is_exported_again(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    before = reader_of(deletes(lake)).metadata
    lake.sql("alter table db.t rename to db.u")
    moved = lake.table("db.u")
    delete_rows(moved.logical, 1)
    reader = reader_of(moved)
    assert plain(reader.rows()) == plain(moved.scan().to_arrow().to_pylist())
    assert reader.metadata["table-uuid"] == before["table-uuid"]
    assert min(r.start for r in reader.row_numbers().values()) >= before["next-row-id"]


def test_version_2_is_refused_with_the_option_that_helps(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    table = upgraded(lake)
    with pytest.raises(InvalidOption, match="'metadata.iceberg.format-version' = '3'"):
        lake.sql("alter table db.t set tblproperties ('metadata.iceberg.format-version' = '2')")
    with pytest.raises(InvalidOption, match="versions 2 and 3"):
        lake.sql("alter table db.t set tblproperties ('metadata.iceberg.format-version' = '4')")
    check(table)


def test_delete_rows_of_before_the_vectors_wait_for_a_full_compaction(tmp_path: Path, caplog) -> None:
    lake = open_lake(tmp_path)
    options = f"{VERSION_3}, 'bucket' = '1', 'num-levels' = '6', 'deletion-vectors.modifiable' = 'true'"
    table = make(lake, "id int, name string, primary key (id)", options=options)
    write(table, *numbers(0, 6000))
    table.compact()
    before = plain(reader_of(table).rows())
    lake.sql("alter table db.t set tblproperties ('num-sorted-run.compaction-trigger' = '3')")
    table = lake.table("db.t")
    for n in range(3):
        delete_keys(table, n)
    table.compact(full=False)
    lake.sql("alter table db.t set tblproperties ('deletion-vectors.enabled' = 'true')")
    table = lake.table("db.t")
    write(table, *numbers(700, 1))
    assert "has rows that delete others" in caplog.text
    assert plain(reader_of(table).rows()) == before
    table.compact()
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


def test_the_system_table_says_which_files_readers_see(tmp_path: Path) -> None:
    table = keyed_vectors(open_lake(tmp_path))
    rows = open_lake(tmp_path).sql("select * from db.`t$iceberg`").to_arrow().to_pylist()
    newest = rows[-1]
    assert newest["is_current"]
    assert newest["is_complete"] is False
    assert newest["files_shown"] == "above level 0"
    assert newest["deletion_vectors"] == len(reader_of(table).deletes()) > 0
    assert newest["records"] == table.scan().to_arrow().num_rows
    assert newest["files_left_out"] > 0


def test_manifests_without_numbers_are_made_again(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    table = make(lake, "id int, name string")
    for n in range(3):
        write(table, *numbers(10 * n, 10))
    path = Path(table.path) / "metadata" / "v3.metadata.json"
    path.write_text(path.read_text().replace('"format-version": 2', '"format-version": 3, "next-row-id": 0'))
    lake.sql(f"alter table db.t set tblproperties ({VERSION_3})")
    table = lake.table("db.t")
    write(table, *numbers(30, 10))
    reader = check(table)
    assert {r.stop - r.start for r in reader.row_numbers().values()} == {10}
    assert sorted(n for r in reader.row_numbers().values() for n in r) == list(range(40))


def test_a_file_that_another_writer_names_as_deletes_is_not_deleted(tmp_path: Path) -> None:
    table = deletes(open_lake(tmp_path))
    outside = tmp_path / "index-1"
    outside.write_text("vectors")
    with pytest.MonkeyPatch.context() as patched:
        named = IcebergFiles.named_files
        patched.setattr(IcebergFiles, "named_files", lambda files, name: {*named(files, name), f"file://{outside}"})
        table.rollback_to(snapshot_id=3)
    assert outside.exists()
    check(table)


def test_a_change_says_what_incremental_readers_must_know(tmp_path: Path) -> None:
    table = make(open_lake(tmp_path), "id int, name string, primary key (id)", options=f"{ON}, 'bucket' = '1'")
    write(table, *numbers(0, 6000))
    table.compact()
    write(table, *numbers(7000, 5))
    table.compact(full=False)
    write(table, *numbers(10, 5))
    table.compact(full=False)
    operations = [s["summary"]["operation"] for s in reader_of(table).metadata["snapshots"]]
    assert operations == ["append"] * 5 + ["overwrite"]
