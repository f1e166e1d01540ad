"""The rows that a reader of the Iceberg metadata alone finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_reader import IcebergReader
from iceberg_tables import TABLES, nested_evolution, numbers, open_lake, plain, write
from iceberg_tables import make as make_iceberg
from lakelog.errors import InvalidOption, NotFound, UnsupportedFeature
from lakelog.filestore.iceberg.export import IcebergExport
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

LEFT_OUT = "lakelog-files-left-out"


def reader_of(table: Table) -> IcebergReader:
    store = table.logical.store
    return IcebergReader(store.io, store.table_path)


# the reader of these tests finds columns by id, but not fields of structs, as pyiceberg and Spark do
@pytest.mark.parametrize("fill", [t for t in TABLES if t is not nested_evolution], ids=lambda fill: fill.__name__)
def test_each_snapshot_has_the_rows_of_the_table_at_that_snapshot(
    fill: Callable[[Lake], Table], tmp_path: Path
) -> None:
    table = fill(open_lake(tmp_path))
    reader = reader_of(table)
    newest = table.latest_snapshot()
    assert newest is not None
    assert reader.metadata["current-snapshot-id"] == newest.id == reader.version
    assert plain(reader.rows()) == plain(table.scan().to_arrow().to_pylist())
    tags = {tag.name: tag.snapshot.id for tag in table.tags()}
    assert reader.tags == tags
    existing = {*table.logical.store.snapshots.ids(), *tags.values()}
    assert set(reader.snapshots) <= existing
    for snapshot_id, snapshot in reader.snapshots.items():
        if snapshot["summary"][LEFT_OUT] == "0":
            by_tag = next((name for name, at in tags.items() if at == snapshot_id), None)
            scan = table.scan(tag=by_tag) if by_tag else table.scan(snapshot_id=snapshot_id)
            assert plain(reader.rows(snapshot_id)) == plain(scan.to_arrow().to_pylist())
    directory = Path(table.path) / "metadata"
    assert {path.name for path in directory.glob("*.avro")} == reader.named


def appended(place: Path, options: str = "") -> Table:
    table = make_iceberg(open_lake(place), "id int, name string", options=options)
    write(table, *numbers(0, 2))
    return table


def test_without_the_option_there_are_no_iceberg_files(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    lake.sql("create table db.t (id int, name string) using lakelog")
    write(lake.table("db.t"), *numbers(0, 2))
    assert not (Path(lake.table("db.t").path) / "metadata").exists()


def test_a_keyed_table_shows_the_state_of_the_last_full_compaction(tmp_path: Path) -> None:
    table = make_iceberg(open_lake(tmp_path), "id int, name string, primary key (id)", options="'bucket' = '1'")
    states = [plain([])]
    for n in range(4):
        write(table, *numbers(n, 3))
        assert plain(reader_of(table).rows()) == states[-1]
        table.compact()
        states.append(plain(table.scan().to_arrow().to_pylist()))
        assert plain(reader_of(table).rows()) == states[-1]


def test_each_bucket_is_always_an_earlier_state_of_the_bucket(tmp_path: Path) -> None:
    table = make_iceberg(
        open_lake(tmp_path),
        "id int, name string, day int, primary key (day, id)",
        "partitioned by (day)",
        "'bucket' = '1'",
    )
    states: dict[int, list[list[str]]] = {1: [[]], 2: [[]]}
    for n in range(6):
        write(table, *numbers(n, 3, day=1), *numbers(n, 4, day=2))
        for day, held in states.items():
            held.append(plain(table.scan(filter=f"day = {day}").to_arrow().to_pylist()))
        if n % 2:
            table.compact(partitions=[{"day": 1 + n % 4 // 2}])
        rows = reader_of(table).rows()
        for day, held in states.items():
            assert plain([row for row in rows if row["day"] == day]) in held


def test_the_bounds_hold_and_say_nothing_of_nan(tmp_path: Path) -> None:
    table = make_iceberg(open_lake(tmp_path), "id int, real float, t timestamp, text string, raw binary, a array<int>")
    row = {"real": 1.5, "t": None, "text": "x" * 40, "raw": b"\x01", "a": [1]}
    write(table, {"id": -3, **row}, {"id": 7, **row, "real": float("nan")})
    (entry,) = reader_of(table).entries()
    low, high = ({b["key"]: b["value"] for b in entry["data_file"][name]} for name in ("lower_bounds", "upper_bounds"))
    assert low == {0: (-3).to_bytes(4, "little", signed=True), 3: b"x" * 16}
    assert high == {0: (7).to_bytes(4, "little"), 3: b"x" * 15 + b"y"}
    nulls = {c["key"]: c["value"] for c in entry["data_file"]["null_value_counts"]}
    assert nulls == {0: 0, 1: 0, 2: 2, 3: 0, 4: 0}


def test_a_commit_succeeds_when_the_export_fails_and_the_next_one_repairs_it(tmp_path: Path, caplog) -> None:
    table = appended(tmp_path)
    directory = Path(table.path) / "metadata"
    directory.rename(directory.with_name("away"))
    directory.write_text("in the way")
    write(table, *numbers(2, 2))
    assert "not up to date" in caplog.text
    assert table.scan().to_arrow().num_rows == 4
    directory.unlink()
    directory.with_name("away").rename(directory)
    assert reader_of(table).version == 1
    write(table, *numbers(4, 2))
    reader = reader_of(table)
    assert list(reader.snapshots) == [1, 2, 3]
    for snapshot_id in reader.snapshots:
        rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
        assert plain(reader.rows(snapshot_id)) == plain(rows)


def test_a_location_outside_of_the_table_is_not_read(tmp_path: Path) -> None:
    table = appended(tmp_path)
    path = Path(table.path) / "metadata" / "v1.metadata.json"
    outside = tmp_path / "snap-1-x.avro"
    outside.write_text("secret")
    reader = reader_of(table)
    path.write_text(path.read_text().replace(reader.snapshots[1]["manifest-list"], f"file://{outside}"))
    write(table, *numbers(2, 2))
    table.expire_snapshots(retain_max=1)
    assert outside.read_text() == "secret"
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("columns", "more", "error", "text"),
    [
        ("id int, t timestamp_ntz(9)", "", UnsupportedFeature, r"column 't' .*TIMESTAMP\(7\)"),
        ("id int, t time(3)", "", UnsupportedFeature, "column 't' of type TIME"),
        ("id int", ", 'file.format' = 'orc'", InvalidOption, "file.format"),
        ("id int", ", 'metadata.iceberg.format-version' = '4'", InvalidOption, "versions 2 and 3"),
        ("id int, primary key (id)", ", 'deletion-vectors.enabled' = 'true'", InvalidOption, "format-version' = '3'"),
    ],
)
def test_what_iceberg_cannot_express_is_refused(columns, more, error, text, tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    storage = "'metadata.iceberg.storage' = 'table-location'"
    with pytest.raises(error, match=text):
        lake.sql(f"create table db.t ({columns}) using lakelog tblproperties ({storage}{more})")
    with pytest.raises(NotFound):
        lake.table("db.t")


def test_a_cast_that_iceberg_lacks_waits_for_a_full_compaction(tmp_path: Path, caplog) -> None:
    table = appended(tmp_path)
    open_lake(tmp_path).sql("alter table db.t alter column id type string")
    table = open_lake(tmp_path).table("db.t")
    write(table, {"id": "x", "name": "y"})
    assert "column 'id' changed from int to string" in caplog.text
    assert reader_of(table).version == 1
    table.compact()
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


def test_the_system_table_says_what_such_a_reader_sees(tmp_path: Path) -> None:
    table = make_iceberg(open_lake(tmp_path), "id int, name string, primary key (id)", options="'bucket' = '1'")
    write(table, *numbers(0, 3))
    table.compact()
    table.create_tag("first")
    write(table, *numbers(2, 3))
    rows = open_lake(tmp_path).sql("select * from db.`t$iceberg`").to_arrow().to_pylist()
    names = ("snapshot_id", "is_current", "is_complete", "data_files", "records", "files_left_out", "tags")
    assert {row["files_shown"] for row in rows} == {"last full compaction"}
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1, False, False, 0, 0, 1, None),
        (2, False, True, 1, 3, 0, "first"),
        (3, True, False, 1, 3, 1, None),
    ]


def test_a_tag_after_a_cast_that_iceberg_lacks_keeps_the_readable_schema(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    table = make_iceberg(lake, "id int, name string")
    write(table, *numbers(0, 2))
    lake.sql("alter table db.t alter column id type string")
    lake.table("db.t").create_tag("x")
    reader = reader_of(table)
    assert reader.tags == {"x": 1}
    current = next(s for s in reader.metadata["schemas"] if s["schema-id"] == reader.metadata["current-schema-id"])
    assert current["fields"][0]["type"] == "int"


@pytest.mark.parametrize("change", ["rollback", "fast-forward"])
def test_no_file_is_deleted_that_readers_still_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    table = appended(tmp_path)
    table.create_branch("b", table.create_tag("t").name)
    write(table, *numbers(2, 2))
    branch = open_lake(tmp_path).table("db.t$branch_b")
    write(branch, *numbers(7, 1))
    deleted: list[str] = []
    delete = LocalFileIO.delete

    def checked(io: LocalFileIO, path: str) -> None:
        if path.endswith(".parquet"):
            named = {entry["data_file"]["file_path"] for entry in reader_of(table).entries()}
            assert not any(name.endswith(path) for name in named)
            deleted.append(path)
        delete(io, path)

    monkeypatch.setattr(LocalFileIO, "delete", checked)
    table.rollback_to(1) if change == "rollback" else table.fast_forward("b")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.delete_tag("t")
    table.delete_branch("b")
    assert deleted
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


def test_while_exports_fail_expiry_keeps_the_files_that_readers_see(tmp_path: Path) -> None:
    table = appended(tmp_path)
    before = plain(reader_of(table).rows())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(IcebergExport, "run", lambda export: None)
        write(table, *numbers(10, 1), overwrite=True)
        write(table, *numbers(20, 1))
        assert table.expire_snapshots(retain_max=1) == []
        assert plain(reader_of(table).rows()) == before
    write(table, *numbers(30, 1))
    assert table.expire_snapshots(retain_max=1) == [1, 2, 3]
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


def test_readers_keep_their_rows_when_a_keyed_table_gets_fewer_levels(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    table = make_iceberg(lake, "id int, name string, primary key (id)", options="'bucket' = '1'")
    write(table, *numbers(0, 5))
    table.compact()
    before = plain(table.scan().to_arrow().to_pylist())
    lake.sql("alter table db.t set tblproperties ('num-sorted-run.compaction-trigger' = '3')")
    table = lake.table("db.t")
    write(table, *numbers(3, 5))
    assert plain(reader_of(table).rows()) == before
    table.compact()
    assert plain(reader_of(table).rows()) == plain(table.scan().to_arrow().to_pylist())


def test_a_moved_table_is_exported_again(tmp_path: Path) -> None:
    table = appended(tmp_path)
    uuid = reader_of(table).metadata["table-uuid"]
    lake = open_lake(tmp_path)
    lake.sql("alter table db.t rename to db.u")
    moved = lake.table("db.u")
    write(moved, *numbers(2, 2))
    reader = reader_of(moved)
    assert reader.metadata["table-uuid"] == uuid
    assert plain(reader.rows()) == plain(moved.scan().to_arrow().to_pylist())
