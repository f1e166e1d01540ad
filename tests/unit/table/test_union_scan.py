"""Union reads: a batch read that is as fresh as the log, whatever state its epochs are in."""

from __future__ import annotations

import pickle
import re
import tempfile

import polars as pl
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, OffsetExpired
from lakelog.filestore.commit.request import CommitRequest
from lakelog.logstore.protocol.header import DATA, encode_header
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.file_commit import level0_files_of
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_follower, register_writer
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import FOLLOWER, LogState, WriterState, newest_state
from lakelog.table.staging.task_writer import TaskWriter
from limits import limit, unsealed
from log_tables import append_foreign, files, rows, silence, trim
from log_tables import make as make_table
from record_batches import PlainRecord

UNION = {"read.mode": "union"}
USED = {"form": "debezium-json"}


@pytest.fixture(params=["debezium-json", "arrow"], autouse=True)
def form(request, monkeypatch) -> str:
    """All tests run with both formats of the log's values."""
    monkeypatch.setitem(USED, "form", request.param)
    return request.param


def make(tmp_path, more: str = "", key: str = ", primary key (id)"):
    form = USED["form"]
    return make_table(tmp_path, f"{more}, 'log-store.data-format' = '{form}'", key)


def union(table, **hints: str) -> list[tuple[int, str]]:
    return files(table, **UNION, **hints)


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_rows_of_an_open_epoch_count_and_are_merged_by_key(tmp_path, mode) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    table.write(rows(1, 2, 3))
    with table.writer() as writer:
        writer.write(rows(2, 3, 4, name="new", kinds=["-D", "+U", "+I"]))
        writer.flush()
        assert union(table) == [(1, "a"), (3, "new"), (4, "new")]
        assert files(table) == [(1, "a"), (2, "a"), (3, "a")]
    assert union(table) == files(table) == [(1, "a"), (3, "new"), (4, "new")]


@pytest.mark.parametrize("few", [0, 20_000])
def test_a_table_without_buckets(tmp_path, few, form, monkeypatch) -> None:
    limit(monkeypatch, union_rows=few)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, name string) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'log-store.data-format' = '{form}')"
    )
    table = lake.table("db.t")
    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        writer.write(rows(2))
        writer.flush()
        assert union(table) == [(1, "a"), (2, "a")]


def test_rows_that_were_taken_back_do_not_count_while_their_writer_lives_on(tmp_path) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    writer.abort()
    assert union(table) == []
    table.write(rows(1, name="other"))
    assert union(table) == [(1, "other")], "neither the row nor what took it back hides a newer one"
    writer.write(rows(2))
    writer.commit()
    assert union(table) == [(1, "other"), (2, "a")]
    writer.close()
    assert union(table) == files(table) == [(1, "other"), (2, "a")]


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_decided_epoch_counts_once_sealed_or_not(tmp_path, key) -> None:
    table = make(tmp_path, key=key)
    handle = table.logical
    register_writer(handle, "w")
    refused, accepted = (TaskWriter(handle, "w", 0, lane=0) for _ in range(2))
    refused.write(rows(1, 7, name="refused").to_batches()[0])
    accepted.write(rows(1, 2).to_batches()[0])
    results = [t.finish() for t in (refused, accepted)]
    assert (1, "a") in union(table) and (2, "a") in union(table), "an open epoch: what a tail has seen"
    committer = Committer(handle, "w")
    committer.commit(0, results[1:])
    assert union(table) == [(1, "a"), (2, "a")]
    zombie = TaskWriter(handle, "w", 0, lane=1)
    zombie.write(rows(1, 9, name="zombie").to_batches()[0])
    zombie.finish()
    assert union(table) == [(1, "a"), (2, "a")], "a late record of a decided epoch"
    seal(committer)
    assert union(table) == [(1, "a"), (2, "a")]


def test_rows_that_are_only_in_the_log_count(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2))
    table.write(rows(2, 3, name="log", kinds=["-D", "+I"]), options={"emit.mode": "log"})
    assert files(table) == [(1, "a"), (2, "a")]
    assert union(table) == [(1, "a"), (3, "log")]
    table.write(rows(3, name="files"))
    assert union(table) == [(1, "a"), (3, "files")], "the newer row of a key by the order of the log"


def test_rows_only_in_the_log_of_a_table_without_a_key(tmp_path) -> None:
    table = make(tmp_path, ", 'emit.mode' = 'log'", key="")
    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        writer.write(rows(5))
        writer.flush()
        writer.abort()
        writer.write(rows(1, 2))
    table.write(rows(8), options={"emit.mode": "file,log"})
    assert files(table) == [(8, "a")]
    assert union(table) == [(1, "a"), (1, "a"), (2, "a"), (8, "a")]


def test_the_rows_of_a_batch_writer_stay_known_after_its_state_is_forgotten(tmp_path) -> None:
    table = make(tmp_path)
    stream = table.logical
    register_writer(stream, "idle")
    long_lived = table.writer()
    long_lived.write(rows(1))
    long_lived.commit()
    for number in range(3):
        table.write(rows(10 + number))
    table.write(rows(1, name="newer"), options={"emit.mode": "file"})
    known = newest_state(stream.store)[1].writers
    assert len(known) <= 2, "closed writers are forgotten"
    assert union(table) == [(1, "newer"), (10, "a"), (11, "a"), (12, "a")]
    long_lived.close()


def test_rows_of_a_writer_whose_lease_has_run_out_do_not_count_until_it_commits(tmp_path) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    assert union(table) == [(1, "a")]
    silence(table, *table.logical.registered.writers())
    assert union(table) == []
    writer.commit()
    assert union(table) == [(1, "a")]
    writer.close()


def test_partitions_filters_and_columns(tmp_path, form) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (p string, id int, v int, primary key (p, id)) using lakelog partitioned by (p) "
        f"tblproperties ('log-store.enabled' = 'true', 'read.mode' = 'union', 'log-store.data-format' = '{form}')"
    )
    table = lake.table("db.t")
    some = pa.table({"p": ["x", "y", "x"], "id": pa.array([1, 1, 2], pa.int32()), "v": pa.array([1, 2, 3], pa.int32())})
    newer = some.set_column(2, "v", pa.array([9, 8, 8], pa.int32())).slice(1)
    with table.writer() as writer:
        writer.write(some)
        writer.commit()
        writer.write(newer)
        writer.flush()
        found = table.scan(columns=["v"], filter="p = 'x'").to_arrow()["v"].to_pylist()
        assert sorted(found) == [1, 8], "the table property asks for it"


def test_a_table_whose_reads_skip_new_files_shows_the_rows_of_its_log(tmp_path) -> None:
    table = make(tmp_path, ", 'deletion-vectors.enabled' = 'true'")
    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        writer.write(rows(2))
        writer.flush()
        assert union(table) == [(1, "a"), (2, "a")]


def test_expired_records_that_no_snapshot_knows_are_an_error_unless_allowed(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1))
    idle = table.writer()
    idle.write(rows(2, 3, 4))
    idle.flush()
    trim(table)
    with pytest.raises(OffsetExpired, match=r"starts at offset \d+, but .* 'scan.expired-offsets'='earliest'"):
        union(table)
    with pytest.raises(OffsetExpired, match="starts at offset"):
        table.tail("latest-full")
    goes_on = {"scan.expired-offsets": "earliest"}
    assert union(table, **goes_on) == [(1, "a")]
    assert [b["id"].to_pylist() for b in table.tail("latest-full", stop="latest", options=goes_on)] == [[1]]


def test_a_table_without_a_log_cannot_be_read_so(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.plain (id int) using lakelog")
    with pytest.raises(InvalidRequest, match="needs its log"):
        lake.table("db.plain").scan(options=UNION)


def test_the_past_and_branches_are_read_from_the_files(tmp_path) -> None:
    table = make(tmp_path, ", 'read.mode' = 'union'")
    for number in range(2):
        table.write(rows(number))
    assert table.scan(snapshot_id=1).to_arrow().num_rows == 1
    table.create_branch("dev", snapshot_id=1)
    assert table.branch("dev").scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("form", ["debezium-json"], indirect=True)  # what another producer writes
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_unowned_rows_count_until_a_follower_has_written_them_to_files(tmp_path, key) -> None:
    table = make(tmp_path, ", 'emit.mode' = 'log'", key=key)
    handle = table.logical
    foreign(handle, 0, 1, None)
    foreign(handle, 0, 2, encode_header(DATA, "", 0, ""))
    assert union(table) == [(1, "foreign"), (2, "foreign")]
    task = TaskWriter(handle.with_hints({"emit.mode": "file"}), FOLLOWER, 0, lane=0)
    task.write(rows(1, name="foreign").to_batches()[0])
    ready = level0_files_of(handle, [EpochRecord(FOLLOWER, 0, 0, (task.finish(),))], None)
    state = LogState().with_writer(FOLLOWER, WriterState(0, {0: 1, 1: 0}, 0))
    handle.store.commit(CommitRequest(FOLLOWER, 0, "APPEND", ready.made.files, state.to_properties()))
    assert files(table) == [(1, "foreign")]
    assert union(table) == [(1, "foreign"), (2, "foreign")]
    tail = sum((b["id"].to_pylist() for b in table.tail("latest-full", stop="latest")), [])
    assert tail == [1, 2]
    trim(table)
    with pytest.raises(OffsetExpired, match="bucket 0 .* starts at offset 2, .* only up to 1"):
        union(table)


@pytest.mark.parametrize("form", ["debezium-json"], indirect=True)  # what another producer writes
def test_a_follower_is_known_from_when_it_begins(tmp_path) -> None:
    table = make(tmp_path)  # not log first by its options
    foreign(table.logical, 0, 1, None)
    made = next(table.follow())
    assert made.delta_record_count == 1 and union(table) == [(1, "foreign")]
    early = make(tmp_path / "early")
    foreign(early.logical, 0, 1, None)
    assert union(early) == [], "nobody has said that the table takes such rows"
    register_follower(early.logical)
    assert (
        union(early)
        == [(1, "foreign")]
        == [(1, n) for b in early.tail("latest-full", stop="latest") for n in b[1].to_pylist()]
    )


def foreign(handle, bucket: int, number: int, header: bytes | None) -> None:
    """A row as any producer of debezium-json writes it, with no header or one of nobody."""
    value = f'{{"before":null,"after":{{"id":{number},"name":"foreign"}},"op":"c"}}'.encode()
    key = f'{{"id":{number}}}'.encode()
    append_foreign(handle.log, bucket, [PlainRecord(0, 0, key, value, [] if header is None else [("lakelog", header)])])


@pytest.mark.parametrize("key", ["", ", primary key (p, id)"])
def test_a_long_tail_is_merged_by_the_tasks_in_bounded_memory(tmp_path, key, monkeypatch, form) -> None:
    limit(monkeypatch, union_rows=100)
    monkeypatch.setattr("lakelog.table.read.union_scan._LEAST_BUFFER", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    options = f"'log-store.enabled' = 'true', 'bucket' = '2', 'log-store.data-format' = '{form}'"
    options += ", 'write-buffer-size' = '10 kb'"
    more = "" if key else ", 'bucket-key' = 'id'"
    lake.sql(
        f"create table db.t (p int, id bigint, v string{key}) using lakelog partitioned by (p) "
        f"tblproperties ({options}{more})"
    )
    table = lake.table("db.t")

    def some(first: int, count: int, value: str) -> pl.DataFrame:
        return pl.DataFrame({"id": range(first, first + count)}).select(
            pl.col("id").mod(3).cast(pl.Int32).alias("p"), "id", pl.lit(value).alias("v")
        )

    table.write(some(0, 3000, "old"))
    with table.writer() as writer:
        writer.write(some(2000, 3000, "new"))
        writer.flush()
        scan = table.scan(options=UNION, columns=["v", "id"])
        splits = scan.plan()
        found = pl.DataFrame(scan.to_arrow())
        some_rows = table.scan(options=UNION, filter="p = 1 and id >= 4000").to_arrow().num_rows
        read = pickle.loads(pickle.dumps((scan, splits)))
        again = sum(b.num_rows for s in read[1] for b in read[0].read(s))
    assert len(splits) == 2 and not any(split.inline_runs for split in splits), "the plan holds no rows"
    old, new = (found.filter(pl.col("v") == v)["id"].sort().to_list() for v in ("old", "new"))
    assert new == list(range(2000, 5000))
    assert old == list(range(2000 if key else 3000))
    assert again == len(found) and some_rows == len([i for i in range(4000, 5000) if i % 3 == 1])
    assert not list(tmp_path.glob("lakelog-spill-*")), "what was spilled is gone"


def test_it_says_which_store_answers_and_how_old_each_part_is(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    scan = table.scan(options=UNION)
    assert "files: no snapshot yet" in scan.explain() and "0 records in 0 of 2 buckets" in scan.explain()
    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        unsealed(monkeypatch)
        writer.write(rows(2))
        writer.commit()
        writer.write(rows(3, 4))
        writer.flush()
        said = scan.explain()
    assert re.search(
        r"files: snapshot 1, \d+\.\d s old; 1 decided epochs that wait for a snapshot, the newest \d", said
    )
    assert re.search(r"log after them: \d+ records in 2 of 2 buckets, the newest \d+\.\d s old", said)


@pytest.mark.parametrize("key", [", primary key (id)", ""])
@pytest.mark.parametrize("few", [0, 20_000])
def test_a_transactional_union_leaves_open_rows_out(tmp_path, monkeypatch, few, key) -> None:
    limit(monkeypatch, union_rows=few)
    table = make(tmp_path, key=key)
    transactional = {"log.consistency": "transactional"}
    with table.writer(options={"emit.mode": "log"}) as only, table.writer() as writer:
        only.write(rows(1))
        only.commit()
        only.write(rows(2))
        only.flush()
        writer.write(rows(3))
        writer.commit()
        writer.write(rows(4))
        writer.flush()
        assert union(table) == [(n, "a") for n in (1, 2, 3, 4)]
        assert union(table, **transactional) == [(1, "a"), (3, "a")]
    assert union(table, **transactional) == union(table)


@pytest.mark.parametrize(
    ("engine", "condition", "want"),
    [
        ("'merge-engine' = 'partial-update'", "v = 2", [(1, "a", 2)]),
        ("'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'", "v = 9", [(1, "a", 9)]),
        ("'merge-engine' = 'deduplicate', 'sequence.field' = 'v'", "v = 2", []),
    ],
    ids=["partial-update", "aggregation", "a sequence field"],
)
@pytest.mark.parametrize("mode", ["file", "union"])
def test_a_filter_skips_no_file_whose_rows_a_decided_epoch_is_folded_with(
    tmp_path, mode: str, engine: str, condition: str, want: list[tuple[int, str, int]]
) -> None:
    """The file has (1, a, 7), which does not match; the epoch has (1, NULL, 2)."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, name string, v int, primary key (id)) using lakelog tblproperties "
        f"('log-store.enabled' = 'true', 'bucket' = '1', 'write-only' = 'true', {engine})"
    )
    table = lake.table("db.t")
    made = pa.schema([("id", pa.int32()), ("name", pa.string()), ("v", pa.int32())])
    table.write(pa.Table.from_pylist([{"id": 1, "name": "a", "v": 7}], made))
    register_writer(table.logical, "query")
    task = TaskWriter(table.logical, "query", 0, 0)
    task.write(pa.Table.from_pylist([{"id": 1, "name": None, "v": 2}], made).to_batches()[0])
    Committer(table.logical, "query").commit(0, [task.finish()])
    scan = table.scan(filter=condition, options={"read.mode": mode})
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == want
