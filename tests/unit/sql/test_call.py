from __future__ import annotations

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import Fenced, InvalidRequest, NotFound, UnsupportedFeature, UnsupportedStatement
from lakelog.table.commit.committer import Committer
from lakelog.table.log.register import register_writer


@pytest.fixture
def lake(tmp_path):
    made = lakelog.connect(warehouse=str(tmp_path))
    made.sql("create database db; create table db.t (id int, name string, primary key (id))")
    for number in range(4):
        made.table("db.t").write(pa.table({"id": pa.array([number], pa.int32()), "name": ["a"]}))
    return made


def ids(table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def test_arguments_by_name_and_by_position(lake) -> None:
    lake.sql("CALL sys.create_tag(table => 'db.t', tag => 'two', snapshot => 2)")
    lake.sql("call lakelog.sys.create_tag('db.t', 'ever', time_retained => '30 d')")
    assert [(t.name, t.snapshot.id) for t in lake.table("db.t").tags()] == [("two", 2), ("ever", 4)]
    gone = lake.sql("CALL sys.expire_snapshots('db.t', 1)")
    assert gone.to_pylist() == [{"deleted_snapshots_count": 3}]
    assert lake.sql("CALL sys.rollback_to('db.t', tag => 'two')").to_pylist() == [{"snapshot_id": 2}]
    assert ids(lake.table("db.t")) == [0, 1]
    lake.sql("CALL sys.delete_tag('db.t', 'two')")
    assert [tag.name for tag in lake.table("db.t").tags()] == ["ever"]


def test_manifests_are_written_again(lake) -> None:
    table = lake.table("db.t")
    table.compact()
    (done,) = lake.sql("CALL sys.compact_manifest('db.t')").to_pylist()
    assert (done["snapshot_id"], done["manifests_before"], done["manifests_after"]) == (6, 5, 1)
    assert done["bytes_after"] < done["bytes_before"]
    assert ids(table) == [0, 1, 2, 3]
    newest = table.history(1).to_pylist()[0]
    assert (newest["version"], newest["operation"]) == (6, "COMPACT")
    (again,) = lake.sql("CALL sys.compact_manifest(table => 'db.t')").to_pylist()
    assert (again["snapshot_id"], again["manifests_before"], again["manifests_after"]) == (None, 1, 1)
    table.write(pa.table({"id": pa.array([4], pa.int32()), "name": ["a"]}))
    assert ids(table) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", ["1 kb", "2 kb", "3 kb"])
def test_manifests_are_not_written_again_and_again(lake, size) -> None:
    lake.sql(
        "create table db.p (id int, p int, primary key (id, p)) partitioned by (p) "
        f"tblproperties ('bucket' = '1', 'manifest.target-file-size' = '{size}', 'write-only' = 'true')"
    )
    for number in range(3):
        with lake.table("db.p").writer() as writer:
            rows = {"id": pa.array([number] * 20, pa.int32()), "p": pa.array(range(20), pa.int32())}
            writer.write(pa.table(rows))
    counts = [lake.table("db.p").compact_manifests() for _ in range(3)]
    assert counts[-1].snapshot is None and counts[-1].manifests_after <= counts[0].manifests_before
    assert lake.table("db.p").scan().to_arrow().num_rows == 60


def test_procedures_are_not_for_system_tables(lake) -> None:
    for procedure in ("compact", "compact_manifest", "create_tag"):
        more = ", 'x'" if procedure == "create_tag" else ""
        with pytest.raises(UnsupportedFeature, match=r"db.t\$snapshots is a system table"):
            lake.sql(f"CALL sys.{procedure}('db.t$snapshots'{more})")


def test_manifests_of_a_table_without_any_and_of_a_branch(lake) -> None:
    lake.sql("create table db.empty (id int, primary key (id))")
    assert lake.table("db.empty").compact_manifests().snapshot is None
    lake.sql("CALL sys.create_branch('db.t', 'dev', snapshot => 4)")
    assert lake.table("db.t").branch("dev").compact_manifests().manifests_after == 1
    assert lake.table("db.t").history(1).to_pylist()[0]["version"] == 4


def test_a_branch(lake) -> None:
    lake.sql("CALL sys.create_branch('db.t', 'dev', snapshot => 2)")
    dev = lake.table("db.t").branch("dev")
    dev.write(pa.table({"id": pa.array([9], pa.int32()), "name": ["dev"]}))
    assert (ids(dev), ids(lake.table("db.t"))) == ([0, 1, 9], [0, 1, 2, 3])
    (done,) = lake.sql("CALL sys.compact('db.t$branch_dev')").to_pylist()
    assert (done["snapshot_id"], done["buckets"], done["files_before"], done["files_after"]) == (4, 1, 3, 1)
    lake.sql("CALL sys.fast_forward('db.t', 'dev')")
    assert ids(lake.table("db.t")) == [0, 1, 9]
    lake.sql("CALL sys.delete_branch('db.t', 'dev')")
    assert ids(lake.table("db.t")) == [0, 1, 9]


def test_other_procedures(lake) -> None:
    lake.sql("CALL sys.reset_consumer('db.t', 'c', 3)")
    assert lake.sql("CALL sys.expire_snapshots(table => 'db.t', retain_max => 1)")[0].to_pylist() == [2]
    lake.sql("CALL sys.reset_consumer('db.t', 'c')")
    assert lake.sql("CALL sys.expire_tags('db.t', older_than => '1 d')").num_rows == 0
    assert lake.sql("CALL sys.remove_orphan_files('db.t', dry_run => true)").num_rows == 0
    counts = lake.sql("CALL sys.remove_orphan_files('db.t', older_than => '2020-01-01 00:00:00')").to_pylist()
    assert counts == [{"deleted_file_count": 0, "deleted_file_total_len_in_bytes": 0}]
    with pytest.raises(InvalidRequest, match="not partitioned"):
        lake.sql("CALL sys.expire_partitions('db.t', '1 d')")


def test_the_end_of_a_writer(lake) -> None:
    lake.sql("create table db.l (id int) using lakelog tblproperties ('log-store.enabled' = 'true')")
    table = lake.table("db.l").logical
    register_writer(table, "query-1")
    assert lake.sql("CALL sys.end_writer(table => 'db.l', writer => 'query-1')").to_pylist() == [{"snapshot_id": 1}]
    assert lake.sql("CALL sys.end_writer('db.l', 'query-1')").to_pylist() == [{"snapshot_id": None}]
    with pytest.raises(Fenced, match="was ended"):
        Committer(table, "query-1").commit(3, [])
    with pytest.raises(NotFound, match="query-1"):
        lake.sql("CALL sys.end_writer('db.l', 'other')")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("CALL sys.nothing('db.t')", InvalidRequest, "unknown procedure 'nothing'"),
        ("CALL sys.compact()", InvalidRequest, "the first argument is the table"),
        (
            "CALL sys.compact('db.t', true, 'a=1', 'a=1', 'minor', 'order', 'a', '1 d', 'a=b', 3)",
            InvalidRequest,
            "at most 9 arguments",
        ),
        ("CALL sys.create_tag('db.t')", InvalidRequest, "argument 'tag' is missing"),
        ("CALL sys.create_tag('db.t', tga => 'x')", InvalidRequest, "did you mean 'tag'"),
        ("CALL sys.create_tag('db.t', 'x', tag => 'y')", InvalidRequest, "given twice"),
        ("CALL sys.create_tag('db.t', 'x', table => 'y')", InvalidRequest, "table is given twice"),
        ("CALL sys.create_tag('db.t', tag => 5)", InvalidRequest, "write a text in quotes"),
        ("CALL sys.compact('db.t', full => 'maybe')", InvalidRequest, "write true or false"),
        ("CALL sys.compact('db.t', full => null => 1)", UnsupportedStatement, "expected ','"),
        ("CALL sys.compact(table => 'db.t', 5)", UnsupportedStatement, "cannot follow one with a name"),
        ("CALL sys.rollback_to('db.t')", InvalidRequest, "one of: a snapshot id, a tag"),
        ("CALL sys.compact('db.nothing')", NotFound, "does not exist"),
        ("CALL sys.compact('db.t$branch_x')", NotFound, "no branch 'x'"),
    ],
)
def test_errors_say_what_to_write(lake, text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lake.sql(text)
