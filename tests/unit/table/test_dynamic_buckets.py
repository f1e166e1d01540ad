from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.write.bucket_assigner import HashIndex
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.staging.task_writer import TaskWriter

ROW = pa.schema([("p", pa.string()), ("id", pa.int32()), ("v", pa.string())])


def make(lake, **options: object):
    more = "".join(f", '{k}' = '{v}'" for k, v in {"dynamic-bucket.target-row-num": 10, **options}.items())
    lake.sql(
        "create table db.t (p string, id int, v string, primary key (p, id)) using lakelog partitioned by (p) "
        f"tblproperties ('bucket' = '-1'{more})"
    )
    return lake.table("db.t")


def rows(p: str, ids, v: str, kind: str | None = None) -> pa.Table:
    table = pa.Table.from_pylist([{"p": p, "id": i, "v": v} for i in ids], ROW)
    return table if kind is None else table.append_column("_row_kind", pa.array([kind] * len(table)))


def write(table, *batches: pa.Table, **arguments: object) -> None:
    with table.writer(**arguments) as writer:
        for batch in batches:
            writer.write(batch)


def content(table) -> dict[tuple[str, int], str]:
    found = table.scan().to_arrow().to_pylist()
    out = {(r["p"], r["id"]): r["v"] for r in found}
    assert len(out) == len(found), "a key is in two buckets"
    return out


def index_of(table) -> dict[bytes, dict[int, int]]:
    """Partition → bucket → keys in its index."""
    store = table.logical.store
    latest = store.latest_snapshot()
    partitions = {e.partition for e in store.live_entries(latest)}
    entries = HashIndex(store.manifests).entries(latest, partitions)
    return {p: {b: len(h) for b, h in HashIndex(store.manifests).read(found).items()} for p, found in entries.items()}


def test_keys_keep_their_bucket_and_buckets_their_size(lake) -> None:
    table = make(lake)
    write(table, rows("a", range(25), "one"), rows("b", range(5), "one"))
    assert sorted(n for held in index_of(table).values() for n in held.values()) == [5, 5, 10, 10]
    write(table, rows("a", range(20, 40), "two"))
    write(table, rows("a", [3, 30], "gone", "-D"))
    table.compact()
    want = {("a", i): "two" if i >= 20 else "one" for i in range(40) if i not in (3, 30)}
    assert content(table) == want | {("b", i): "one" for i in range(5)}
    assert sorted(n for held in index_of(table).values() for n in held.values()) == [5, 10, 10, 10, 10]
    entries = table.logical.store.live_entries(table.latest_snapshot())
    assert {e.total_buckets for e in entries} == {-1} and {e.bucket for e in entries} == {0, 1, 2, 3}
    assert table.scan(filter="p = 'a' and id = 33").to_arrow()["v"].to_pylist() == ["two"]


def test_large_runs_get_their_buckets_in_the_seal_and_leave_no_files(lake) -> None:
    table = make(lake, **{"write-buffer-size": "64 kb", "dynamic-bucket.target-row-num": 2000})
    write(table, rows("a", range(5000), "x" * 20), rows("a", range(1000, 2000), "y"))
    found = content(table)
    assert len(found) == 5000 and found["a", 1500] == "y" and found["a", 999] == "x" * 20
    assert sorted(next(iter(index_of(table).values())).values()) == [1000, 2000, 2000]
    inner = table.logical
    (partition,) = {e.partition for e in inner.store.live_entries(table.latest_snapshot())}
    assert inner.io.list(inner.store.paths.bucket_dir(partition, -1)) == []


def stage(table, writer: str, epoch: int, batch: pa.Table) -> Committer:
    committer = Committer(table.logical, writer)
    task = TaskWriter(table.logical, writer, epoch, 0)
    task.write(batch.to_batches()[0])
    committer.commit(epoch, [task.finish()])
    return committer


def test_waiting_epochs_are_read_with_their_keys_in_place(lake) -> None:
    table = make(lake)
    write(table, rows("a", range(15), "sealed"))
    committer = stage(table, "stream", 0, rows("a", range(10, 30), "waits"))
    want = {("a", i): "sealed" if i < 10 else "waits" for i in range(30)}
    assert content(table) == want
    seal(committer)
    assert content(table) == want


def test_a_write_during_a_seal_comes_after_it_and_keys_keep_their_buckets(lake, monkeypatch) -> None:
    table = make(lake, **{"dynamic-bucket.target-row-num": 3})
    write(table, rows("a", [1], "old"))
    committer = stage(table, "loser", 0, rows("a", range(8), "loser"))
    real, raced = type(table.logical.store).commit, []

    def races(store, request):
        if not raced:
            raced.append(True)
            write(table, rows("a", [7, 6, 5, 90, 91], "winner"))
        return real(store, request)

    monkeypatch.setattr("lakelog.filestore.store.FileStore.commit", races)
    seal(committer)
    monkeypatch.undo()
    assert content(table) == {("a", i): "loser" for i in range(5)} | {("a", i): "winner" for i in (5, 6, 7, 90, 91)}
    assert sum(next(iter(index_of(table).values())).values()) == 10
    store = table.logical.store
    named = {e.file_name for e in HashIndex(store.manifests).entries(table.latest_snapshot(), index_of(table))[
        next(iter(index_of(table)))]}  # fmt: skip
    assert named <= {s.path.rsplit("/", 1)[-1] for s in store.io.list(f"{store.paths.root}/index")}


def test_two_first_writes_at_once_give_a_key_one_bucket(lake, monkeypatch) -> None:
    table = make(lake, **{"dynamic-bucket.target-row-num": 3})
    real, raced = type(table.logical.store).commit, []

    def races(store, request):
        if not raced:
            raced.append(True)
            write(table, rows("a", range(5, 15), "winner"))
        return real(store, request)

    monkeypatch.setattr("lakelog.filestore.store.FileStore.commit", races)
    write(table, rows("a", range(10), "loser"))
    monkeypatch.undo()
    assert content(table) == {("a", i): "loser" if i < 10 else "winner" for i in range(15)}
    assert sum(next(iter(index_of(table).values())).values()) == 15


def test_an_overwrite_begins_with_new_buckets(lake) -> None:
    table = make(lake)
    write(table, rows("a", range(30), "old"), rows("b", range(3), "old"))
    write(table, rows("a", range(25, 35), "new"), overwrite=True)
    assert content(table) == {("a", i): "new" for i in range(25, 35)} | {("b", i): "old" for i in range(3)}
    assert sorted(n for held in index_of(table).values() for n in held.values()) == [3, 10]
    table.drop_partitions([{"p": "a"}])
    write(table, rows("a", [1], "again"))
    assert content(table) == {("a", 1): "again"} | {("b", i): "old" for i in range(3)}
    table.truncate()
    assert table.latest_snapshot().index_manifest is None


def test_what_dynamic_buckets_cannot_do_is_refused(lake) -> None:
    lake.sql("create table db.p (id int, primary key (id)) using lakelog tblproperties ('bucket' = '-2')")
    with pytest.raises(UnsupportedFeature, match="postponed"):
        write(lake.table("db.p"), pa.table({"id": pa.array([1], pa.int32())}))
    table = make(lake)
    schema = table.logical.location.schema
    object.__setattr__(schema, "primary_keys", ("id",))
    with pytest.raises(UnsupportedFeature, match="can move between partitions"):
        write(table, rows("a", [1], "x"))


def test_a_table_with_a_key_has_one_bucket_unless_it_names_a_number(lake):
    lake.sql("create table db.plain (id int, v string, primary key (id)) using lakelog")
    lake.sql("create table db.dynamic (id int, primary key (id)) using lakelog tblproperties ('bucket' = '-1')")
    lake.sql("create table db.free (id int) using lakelog")
    kept = {name: lake.table(f"db.{name}").options.get("bucket") for name in ("plain", "dynamic", "free")}
    assert kept == {"plain": "1", "dynamic": "-1", "free": None}
