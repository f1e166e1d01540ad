"""A backup has the rows of one moment, is copied once, and is restored as a new table or into its own."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import AlreadyExists, Corrupt, InvalidOption, InvalidRequest, NotFound, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.table.commit.replay import check_checkpoint
from log_tables import append_foreign
from log_tables import make as make_log_table
from record_batches import PlainRecord

LOG = "'log-store.enabled' = 'true'"
TABLES = {
    "key": (True, ""),
    "key, vectors": (True, "'deletion-vectors.enabled' = 'true'"),
    "key, changelog": (True, "'changelog-producer' = 'lookup'"),
    "key, sums": (True, "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'max'"),
    "key, dynamic buckets": (True, f"{LOG}, 'bucket' = '-1'"),
    "key, log": (True, LOG),
    "key, log and vectors": (True, f"{LOG}, 'deletion-vectors.enabled' = 'true'"),
    "key, log of changes": (True, f"{LOG}, 'log.content' = 'changes'"),
    "key, log in files": (True, f"{LOG}, 'log-store.type' = 'files'"),
    "no key": (False, ""),
    "no key, log": (False, LOG),
    "no key, log in files": (False, f"{LOG}, 'log-store.type' = 'files'"),
    "no key, log of changes": (False, f"{LOG}, 'log.content' = 'changes'"),
}


def make(place: Path, keyed: bool, options: str, partitioned: bool = False) -> Table:
    lake = connect(str(place / "w"))
    lake.sql("create database if not exists db")
    if "'bucket'" not in options:
        options = ", ".join(filter(None, [options, "'bucket' = '2'", "" if keyed else "'bucket-key' = 'id'"]))
    key = f", primary key ({'id, p' if partitioned else 'id'})" if keyed else ""
    by = "partitioned by (p)" if partitioned else ""
    part = ", p int" if partitioned else ""
    lake.sql(f"create table db.t (id int, v string{part}{key}) {by} tblproperties ({options})")
    return lake.table("db.t")


def write(table: Table, *ids: int, v: str = "a") -> None:
    given: dict[str, Any] = {"id": pa.array(ids, pa.int32()), "v": [v] * len(ids)}
    if "p" in table.schema.names:
        given["p"] = pa.array([number % 2 for number in ids], pa.int32())
    table.write(pa.table(given))


def write_columns(table: Table, **values: object) -> None:
    table.write(pa.Table.from_pylist([values], schema=table.schema))


def rows(table: Table, **scan: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.scan(**scan).to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("name", "partitioned"),
    [*((name, False) for name in TABLES), ("key, log and vectors", True), ("no key, log", True)],
)
def test_a_restored_table_has_the_rows_of_its_point_and_goes_on(tmp_path: Path, name: str, partitioned: bool) -> None:
    keyed, options = TABLES[name]
    table = make(tmp_path, keyed, options, partitioned)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, 1, 2, 3)
    first = lake.backup("db.t", backup)
    seen = {first.number: rows(table)}
    write(table, 2, 4, v="b")
    table.compact(full=True)
    table.delete("id = 1") if "merge-engine" not in options else write(table, 1, v="c")
    second = lake.backup("db.t", backup)
    seen[second.number] = rows(table)
    write(table, 9, v="later")
    for point in (first, second):
        restored_name = f"other.t{point.number}"
        lake.restore(backup, restored_name, snapshot_id=point.snapshot)
        restored = lake.table(restored_name)
        assert rows(restored) == seen[point.number]
        assert restored.logical.identity.id != table.logical.identity.id
        if LOG in options:
            assert rows(restored, options={"read.mode": "union"}) == seen[point.number]
        write(restored, 7, 2, v="z")
        restored.compact(full=True)
        wanted = rows(restored)
        assert sum(wanted.values()) > 0
        if LOG in options:
            assert rows(restored, options={"read.mode": "union"}) == wanted
            found: Counter[tuple[object, ...]] = Counter()
            for batch in restored.tail("latest-full", stop="latest"):
                for row in batch.to_pylist():
                    found[tuple(v for k, v in row.items() if k != "_row_kind")] += (
                        1 if row["_row_kind"][0] == "+" else -1
                    )
            assert +found == wanted
        restored.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
        restored.remove_orphan_files(older_than="0 s")
        assert rows(restored) == wanted


@pytest.mark.parametrize("name", TABLES)
def test_a_point_becomes_the_newest_state_of_its_own_table(tmp_path: Path, name: str) -> None:
    keyed, options = TABLES[name]
    table = make(tmp_path, keyed, options)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, 1, 2, 3)
    point, wanted = lake.backup("db.t", backup), rows(table)
    write(table, 2, 5, v="b")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    identity = table.logical.identity.id
    assert lake.restore(backup, "db.t", in_place=True).number == point.number
    assert rows(table) == wanted
    assert lake.table("db.t").logical.identity.id == identity
    assert [tag.name for tag in table.tags()] == []
    write(table, 8)
    table.compact(full=True)
    now = rows(table)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.remove_orphan_files(older_than="0 s")
    assert rows(table) == now


def test_a_backup_copies_only_what_it_lacks(tmp_path: Path) -> None:
    table = make(tmp_path, True, LOG)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, *range(1000))
    first = lake.backup("db.t", backup)
    again = lake.backup("db.t", backup)
    assert (again.snapshot, again.new_files, again.new_bytes) == (first.snapshot, 0, 0)
    write(table, 1)
    third = lake.backup("db.t", backup)
    data = [name for name in set(third.files) - set(first.files) if "bucket-" in name]
    assert len(data) == 1
    assert third.log_offsets != first.log_offsets
    kept = lake.backup("db.t", backup, keep=1)
    assert [point.number for point in lake.backup_points(backup, check=True)] == [kept.number]
    left = {
        str(f.relative_to(tmp_path / "backup/files")) for f in (tmp_path / "backup/files").rglob("*") if f.is_file()
    }
    assert left == set(kept.files)


def test_a_backup_under_writes_has_every_row_that_was_committed_before(tmp_path: Path) -> None:
    make(tmp_path, True, LOG)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    done, stop = [0], threading.Event()

    def run() -> None:
        own = connect(str(tmp_path / "w")).table("db.t")
        while not stop.is_set():
            write(own, done[0])
            done[0] += 1

    writer = threading.Thread(target=run)
    writer.start()
    try:
        for number in range(4):
            while done[0] < 3 * number:
                stop.wait(0.01)
            before = done[0]
            point = lake.backup("db.t", backup)
            lake.restore(backup, f"db.r{number}", snapshot_id=point.snapshot)
            found = sorted(row["id"] for row in lake.table(f"db.r{number}").scan().to_arrow().to_pylist())
            assert found == list(range(len(found))) and len(found) >= before
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("place", ["embedded", "files"])
def test_a_log_that_was_added_or_removed_is_that_of_the_restored_table(tmp_path: Path, keyed: bool, place: str) -> None:
    table = make(tmp_path, keyed, "")
    write(table, 1, 2)
    lake = connect(str(tmp_path / "w"))
    lake.sql(f"alter table db.t set tblproperties ('log-store.enabled' = 'true', 'log-store.type' = '{place}')")
    write(lake.table("db.t"), 3)
    lake.backup("db.t", str(tmp_path / "backup"))
    lake.restore(str(tmp_path / "backup"), "db.added")
    added = lake.table("db.added")
    write(added, 4)
    assert rows(added) == rows(lake.table("db.t")) + Counter([(4, "a")])
    changes = [row["id"] for batch in added.tail("latest-full", stop="latest") for row in batch.to_pylist()]
    assert sorted(changes) == [1, 2, 3, 4]
    lake.sql("alter table db.t set tblproperties ('log-store.enabled' = 'false')")
    write(lake.table("db.t"), 5)
    lake.backup("db.t", str(tmp_path / "backup"))
    lake.restore(str(tmp_path / "backup"), "db.removed")
    removed = lake.table("db.removed")
    write(removed, 6)
    assert removed.logical.log is None
    assert rows(removed) == rows(lake.table("db.t")) + Counter([(6, "a")])


def test_points_are_chosen_by_tag_and_time(tmp_path: Path) -> None:
    table = make(tmp_path, True, "")
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, 1)
    table.create_tag("one")
    write(table, 2)
    newest = lake.backup("db.t", backup)
    tagged = lake.backup("db.t", backup, tag="one")
    assert (tagged.tags, newest.tags) == (("one",), ())
    lake.restore(backup, "db.a", tag="one")
    lake.restore(backup, "db.b", timestamp=tagged.time_ms)
    lake.restore(backup, "db.c")
    counts = [lake.table(f"db.{name}").scan().count() for name in "abc"]
    assert counts == [1, 1, 2]
    with pytest.raises(NotFound, match="has no such point; its newest points: snapshot 2, snapshot 1"):
        lake.restore(backup, "db.d", snapshot_id=99)
    with pytest.raises(InvalidRequest, match="one of"):
        lake.restore(backup, "db.d", snapshot_id=1, tag="one")


def test_a_restored_table_has_all_schemas_of_its_files(tmp_path: Path) -> None:
    table = make(tmp_path, True, LOG)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, 1)
    table.compact(full=True)
    lake.sql("alter table db.t add column more int")
    lake.sql("alter table db.t rename column v to w")
    write_columns(lake.table("db.t"), id=2, w="x", more=5)
    lake.backup("db.t", backup)
    lake.restore(backup, "db.r")
    restored = lake.table("db.r")
    assert rows(restored) == Counter({(1, "a", None): 1, (2, "x", 5): 1})
    lake.sql("alter table db.r add column last int")
    write_columns(lake.table("db.r"), id=3, w="y", more=6, last=7)
    assert rows(lake.table("db.r")) == Counter({(1, "a", None, None): 1, (2, "x", 5, None): 1, (3, "y", 6, 7): 1})


def test_an_empty_table_is_backed_up_and_restored(tmp_path: Path) -> None:
    make(tmp_path, True, LOG)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    assert lake.backup("db.t", backup).snapshot == 0
    lake.restore(backup, "db.r")
    write(lake.table("db.r"), 1)
    assert rows(lake.table("db.r")) == Counter({(1, "a"): 1})
    with pytest.raises(InvalidRequest, match="has no snapshot"):
        lake.restore(backup, "db.t", in_place=True)


def test_log_first_rows_are_in_the_backup(tmp_path: Path) -> None:
    """Rows that reached the log without a writer become files first."""
    table = make_log_table(tmp_path, ", 'log-store.data-format' = 'debezium-json'", key="")
    lake = connect(str(tmp_path / "warehouse"))
    for _ in table.follow(stop="latest"):
        pass
    log = table.log
    assert log is not None
    append_foreign(log, 0, [PlainRecord(0, 0, None, b'{"before":null,"after":{"id":2,"name":"z"},"op":"c"}')])
    lake.backup("db.t", str(tmp_path / "backup"))
    lake.restore(str(tmp_path / "backup"), "db.r")
    assert rows(lake.table("db.r")) == Counter({(2, "z"): 1})


def test_what_cannot_be_backed_up_or_restored_is_refused_by_name(tmp_path: Path) -> None:
    table = make(tmp_path, True, LOG)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, 1)
    lake.backup("db.t", backup)
    with pytest.raises(NotFound, match="is not a backup of lakelog"):
        lake.restore(str(tmp_path / "nowhere"), "db.r")
    with pytest.raises(AlreadyExists, match="choose another name"):
        lake.restore(backup, "db.t")
    with pytest.raises(InvalidOption, match="'merge-engine' cannot change in a restore"):
        lake.restore(backup, "db.r", options={"merge-engine": "first-row"})
    lake.create_table("db.u", {"id": "int"})
    with pytest.raises(InvalidRequest, match="is the backup of table db.t"):
        lake.backup("db.u", backup)
    with pytest.raises(InvalidRequest, match="is not the one in"):
        lake.restore(backup, "db.u", in_place=True)
    table.write(pa.table({"id": pa.array([5], pa.int32()), "v": ["only"]}), options={"emit.mode": "log"})
    with pytest.raises(UnsupportedFeature, match="'emit.mode' = 'log'"):
        lake.backup("db.t", backup)
    assert lake.backup("db.t", backup, files_only=True).number == 2


def test_a_damaged_backup_is_named_before_a_table_exists(tmp_path: Path) -> None:
    table = make(tmp_path, True, "")
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, *range(100))
    point = lake.backup("db.t", backup)
    name = next(name for name in point.files if "bucket-" in name)
    file = tmp_path / "backup/files" / name
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(Corrupt, match="is damaged"):
        lake.restore(backup, "db.r")
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Corrupt, match="other bytes"):
        lake.backup_points(backup, check=True)
    with pytest.raises(Corrupt, match="other bytes"):
        lake.restore(backup, "db.r")
    assert not lake.table_exists("db.r")
    file.write_bytes(data)
    lake.restore(backup, "db.r")
    assert lake.table("db.r").scan().count() == 100


def test_a_writer_of_the_old_table_is_refused_by_the_restored_one(tmp_path: Path) -> None:
    """A checkpoint belongs to one table: that of a stream of the old table is not continued here (RFC 10)."""
    table = make(tmp_path, True, LOG)
    lake, backup = connect(str(tmp_path / "w")), str(tmp_path / "backup")
    write(table, 1)
    tail = table.tail("latest-full", stop="latest")
    list(tail)
    position = tail.position
    lake.backup("db.t", backup)
    lake.restore(backup, "db.r")
    restored = lake.table("db.r")
    with pytest.raises(InvalidRequest):
        list(restored.tail(position, stop="latest"))
    with pytest.raises(InvalidRequest, match="has never been written by this query"):
        check_checkpoint(restored.logical, "query", 3, known=False)
