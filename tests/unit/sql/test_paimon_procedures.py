"""Procedures and arguments that Apache Paimon has, as its users write them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelog
from lakelog.errors import InvalidRequest, NotFound, UnsupportedFeature
from lakelog.paimon.rows.partition import decode_partition

DONE = [{"result": True}]


@pytest.fixture
def lake(tmp_path):
    made = lakelog.connect(warehouse=str(tmp_path))
    made.sql(
        "create table db.t (id int, at bigint, primary key (id)) tblproperties ('watermark.column' = 'at', "
        "'write-only' = 'true')"
    )
    for number in range(4):
        _write(made, "db.t", id=[number], at=[1000 * number])
    return made


def _write(lake, name: str, **columns: list[object]) -> None:
    schema = lake.table(name).schema
    lake.table(name).write(pa.table({key: pa.array(columns[key], schema.field(key).type) for key in columns}))


def _ids(lake, name: str = "db.t") -> list[int]:
    return sorted(lake.table(name).scan().to_arrow().column("id").to_pylist())


def _call(lake, text: str) -> list[dict[str, object]]:
    return lake.sql(f"CALL sys.{text}").to_pylist()


def test_procedures_about_references_say_that_they_are_done(lake) -> None:
    for call in (
        "create_tag('db.t', 'one', 1)",
        "replace_tag('db.t', 'one', 2)",
        "rename_tag('db.t', 'one', 'two')",
        "create_branch('db.t', 'dev', 'two')",
        "fast_forward('db.t', 'dev')",
        "delete_branch('db.t', 'dev')",
        "delete_tag('db.t', 'two')",
        "reset_consumer('db.t', 'c', 2)",
    ):
        assert _call(lake, call) == DONE, call


def test_a_version_is_a_tag_or_a_snapshot(lake) -> None:
    _call(lake, "create_tag('db.t', 'three', 3)")
    assert _call(lake, "rollback('db.t', 'three')") == DONE
    assert _ids(lake) == [0, 1, 2]
    assert _call(lake, "rollback('db.t', snapshot => 2)") == DONE
    assert _ids(lake) == [0, 1]
    assert _call(lake, "rollback(table => 'db.t', version => '1')") == DONE
    assert _ids(lake) == [0]
    for call in ("rollback('db.t', snapshot => 9)", "rollback('db.t', 'gone')", "rollback('db.t', tag => 'gone')"):
        with pytest.raises(NotFound):
            _call(lake, call)
    with pytest.raises(InvalidRequest, match="give one of version, snapshot and tag"):
        _call(lake, "rollback('db.t', '1', snapshot => 1)")
    with pytest.raises(InvalidRequest, match="one of: a snapshot id, a tag"):
        _call(lake, "rollback('db.t')")


def test_a_table_goes_back_to_a_time_or_a_watermark(lake) -> None:
    times = {row["snapshot_id"]: row["commit_time"] for row in _snapshots(lake)}
    with pytest.raises(NotFound):
        _call(lake, f"rollback_to_timestamp('db.t', {times[1] - 1})")
    with pytest.raises(NotFound, match="no snapshot with watermark 9000"):
        _call(lake, "rollback_to_watermark('db.t', 9000)")
    (done,) = _call(lake, "rollback_to_watermark(table => 'db.t', watermark => 1500)")
    assert done == {"previous_snapshot_id": 4, "current_snapshot_id": 3}
    assert _ids(lake) == [0, 1, 2]
    (done,) = _call(lake, f"rollback_to_timestamp('db.t', {times[3]})")
    assert done["current_snapshot_id"] in (3, 4) and _ids(lake) == [0, 1, 2]


def _snapshots(lake) -> list[dict[str, int]]:
    store = lake.table("db.t").logical.store
    return [{"snapshot_id": i, "commit_time": store.snapshot(i).time_millis} for i in range(1, 5)]


def test_a_log_of_input_rows_gets_the_difference_unless_its_rows_cannot_be_taken_back(lake) -> None:
    lake.sql("create table db.l (id int, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    kept = "'log-store.enabled' = 'true', 'ignore-delete' = 'true'"
    lake.sql(f"create table db.o (id int, primary key (id)) tblproperties ({kept})")
    for number in range(2):
        _write(lake, "db.l", id=[number])
        _write(lake, "db.o", id=[number])
    for call in ("rollback('db.o', '1'", "rollback_to_timestamp('db.o', 99999999999999"):
        with pytest.raises(InvalidRequest, match="files_only"):
            _call(lake, f"{call})")
        _call(lake, f"{call}, files_only => true)")
    _call(lake, "rollback('db.l', '1')")
    told = [
        (r["_row_kind"], r["id"]) for r in lake.table("db.l").tail("earliest", stop="latest").to_arrow().to_pylist()
    ]
    assert told == [("+I", 0), ("+I", 1), ("-D", 1)]


def test_a_tag_of_a_time(lake) -> None:
    newest = _snapshots(lake)[-1]
    (done,) = _call(lake, f"create_tag_from_timestamp('db.t', 'now', {newest['commit_time']}, '1 d')")
    assert done == {"tagName": "now", "snapshot": 4, "commit_time": newest["commit_time"], "watermark": "3000"}
    assert [(tag.name, tag.snapshot.id) for tag in lake.table("db.t").tags()] == [("now", 4)]
    with pytest.raises(NotFound, match="or before"):
        _call(lake, "create_tag_from_timestamp('db.t', 'old', 5)")


def test_consumers_are_cleared(lake) -> None:
    for name in "ab":
        _call(lake, f"reset_consumer('db.t', '{name}', 2)")
    assert _call(lake, "clear_consumers('db.t')") == DONE
    assert list(lake.table("db.t").logical.store.consumers.list()) == []


def test_a_table_gets_another_number_of_buckets(lake) -> None:
    lake.sql(
        "create table db.p (id int, day string, primary key (id, day)) partitioned by (day) tblproperties "
        "('bucket' = '1')"
    )
    _write(lake, "db.p", id=[1, 2, 3, 4], day=["a", "a", "b", "b"])
    assert _call(lake, "rescale(table => 'db.p', bucket_num => 2, partitions => 'day=\"a\"')") == DONE
    assert lake.table("db.p").definition.options["bucket"] == "2"
    assert _totals(lake) == {"a": 2, "b": 1}
    assert _call(lake, "rescale('db.p')") == DONE
    assert _totals(lake) == {"a": 2, "b": 2} and _ids(lake, "db.p") == [1, 2, 3, 4]
    with pytest.raises(InvalidRequest, match=r"bucket_num = 0 .* at least 1"):
        _call(lake, "rescale('db.p', 0)")
    _call(lake, "create_branch('db.p', 'dev')")
    with pytest.raises(UnsupportedFeature, match="a branch has from its table"):
        _call(lake, "rescale('db.p$branch_dev', 3)")


def _totals(lake) -> dict[str, int]:
    """Partition → number of buckets of its files."""
    table = lake.table("db.p").logical
    live = table.store.live_entries(table.store.latest_snapshot())
    return {decode_partition(e.partition, table.schema)[0]: e.total_buckets for e in live}


def test_options_of_a_table_for_one_call(lake) -> None:
    gone = _call(
        lake, "expire_snapshots('db.t', options => 'snapshot.num-retained.max=2, snapshot.num-retained.min=1')"
    )
    assert gone == [{"deleted_snapshots_count": 2}]
    for text in ("merge-engine=aggregation", "properties.acks=1", "bucket=3"):
        with pytest.raises(InvalidRequest, match="unknown option"):
            _call(lake, f"expire_snapshots('db.t', options => '{text}')")
    with pytest.raises(InvalidRequest, match="write options like"):
        _call(lake, "expire_snapshots('db.t', options => 'nothing')")


def test_partitions_expire_by_what_the_call_says(lake) -> None:
    lake.sql("create table db.d (id int, day string) partitioned by (day)")
    _write(lake, "db.d", id=[1, 2, 3], day=["01/2020", "02/2020", "01/2999"])
    call = "expire_partitions('db.d', '1 d', timestamp_formatter => 'MM/yyyy', timestamp_pattern => '$day'"
    assert _call(lake, f"{call}, max_expires => 1)") == [{"expired_partitions": "day=01/2020"}]
    assert _call(lake, f"{call}, options => 'partition.expiration-max-num=5')") == [
        {"expired_partitions": "day=02/2020"}
    ]
    assert _ids(lake, "db.d") == [3]


def test_arguments_for_other_engines_are_ignored(lake) -> None:
    counts = _call(lake, "remove_orphan_files(table => 'db.t', parallelism => 5, mode => 'distributed')")
    assert counts == [{"deleted_file_count": 0, "deleted_file_total_len_in_bytes": 0}]


def test_a_compaction_takes_options_for_one_call(lake) -> None:
    """A trigger of two sorted runs compacts what the table's own five do not; the table keeps its options."""
    before = dict(lake.table("db.t").definition.options)
    minor = "compact(table => 'db.t', compact_strategy => 'minor'"
    assert _call(lake, f"{minor})")[0]["snapshot_id"] is None
    (done,) = _call(lake, f"{minor}, options => 'num-sorted-run.compaction-trigger=2, file.compression=lz4')")
    assert (done["files_before"], done["files_after"]) == (4, 1)
    store = lake.table("db.t").logical.store
    (entry,) = store.live_entries(store.latest_snapshot())
    path = store.paths.data_file(entry.partition, entry.bucket, entry.file)
    assert pq.read_metadata(path).row_group(0).column(0).compression == "LZ4"
    assert lake.table("db.t").definition.options == before and _ids(lake) == [0, 1, 2, 3]
    assert _call(lake, "compact('db.t', options => 'sink.parallelism=4')")
    for text in (
        "bucket=3",
        "merge-engine=aggregation",
        "log-store.address=x",
        "write-only=false",
        "commit.user-prefix=x",
    ):
        with pytest.raises(InvalidRequest, match="unknown option"):
            _call(lake, f"compact('db.t', options => '{text}')")


def test_a_compaction_leaves_partitions_that_are_still_written(lake) -> None:
    lake.sql("create table db.i (id int, day int) partitioned by (day) tblproperties ('write-only' = 'true')")
    for _ in range(2):
        _write(lake, "db.i", id=[1, 2], day=[1, 2])
    store = lake.table("db.i").logical.store
    assert _call(lake, "compact('db.i', partition_idle_time => '1 h')")[0]["snapshot_id"] is None
    assert len(list(store.live_entries(store.latest_snapshot()))) == 4
    (done,) = _call(lake, "compact('db.i', partitions => 'day=1', partition_idle_time => '0 s')")
    assert (done["buckets"], done["files_before"], done["files_after"]) == (1, 2, 1)
    (done,) = _call(lake, "compact('db.i', partition_idle_time => '0 s')")
    assert len(list(store.live_entries(store.latest_snapshot()))) == 2
