from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog.errors import CommitUnknown, InvalidRequest, InvalidSchema, NotFound
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.model.partition_selection import OverwriteTarget
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.overwrite import OverwriteWriter, commit_overwrite


def partitioned(lake, keyed: bool = True, more: str = "") -> object:
    key = ", primary key (p, q, id)" if keyed else ""
    lake.sql(
        f"create table db.t (p string, q int, id int, v string{key}) using lakelog partitioned by (p, q) "
        f"tblproperties ('bucket' = '{2 if keyed else -1}'{more})"
    )
    return lake.table("db.t")


def rows(*given: tuple[str | None, int | None, int, str]) -> pa.Table:
    p, q, ids, v = zip(*given, strict=True)
    return pa.table({"p": pa.array(p, pa.string()), "q": pa.array(q, pa.int32()), "id": pa.array(ids, pa.int32()),
                     "v": pa.array(v, pa.string())})  # fmt: skip


def content(table) -> list[tuple]:
    return sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())


def write(table, *given: tuple, **arguments: object) -> None:
    table.write(rows(*given), **arguments)


@pytest.mark.parametrize("keyed", [True, False])
def test_an_overwrite_replaces_the_partitions_that_its_rows_have(lake, keyed: bool) -> None:
    table = partitioned(lake, keyed)
    write(table, ("a", 1, 1, "x"), ("a", 2, 1, "y"), ("b", 1, 1, "z"))
    write(table, ("a", 1, 2, "new"), overwrite=True)
    assert content(table) == [("a", 1, 2, "new"), ("a", 2, 1, "y"), ("b", 1, 1, "z")]
    assert table.latest_snapshot().commit_kind == "OVERWRITE"
    with table.writer(overwrite=True):  # no rows: no partition
        pass
    assert len(content(table)) == 3


def test_without_the_dynamic_option_an_overwrite_replaces_the_whole_table(lake) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"), ("b", 1, 1, "z"))
    write(table, ("c", 1, 1, "n"), overwrite=True, options={"dynamic-partition-overwrite": "false"})
    assert content(table) == [("c", 1, 1, "n")]


def test_named_partitions_are_replaced_whatever_the_rows_are(lake) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"), ("a", 2, 1, "y"), ("b", 1, 1, "z"))
    with table.writer(overwrite={"q": "2", "p": "a"}):
        pass
    assert content(table) == [("a", 1, 1, "x"), ("b", 1, 1, "z")]
    write(table, ("a", 7, 1, "n"), overwrite={"P": "a"})
    assert content(table) == [("a", 7, 1, "n"), ("b", 1, 1, "z")]
    with pytest.raises(InvalidRequest, match="'b'.*only p = 'a' is overwritten"):
        write(table, ("b", 7, 1, "n"), overwrite={"p": "a"})
    with pytest.raises(InvalidSchema, match="'v' is not a partition column.*p, q"):
        table.writer(overwrite={"v": "a"})
    with pytest.raises(InvalidRequest, match="'q' is int32"):
        table.writer(overwrite={"q": "x"})


def test_of_named_partitions_those_without_a_row_may_stay(lake) -> None:
    """INSERT OVERWRITE … PARTITION (p = 'a', q) with Spark's dynamic mode."""
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"), ("a", 2, 1, "y"), ("b", 1, 1, "z"))
    target = OverwriteTarget((("p", "a"),), by_rows=True)
    with OverwriteWriter(table.logical, target) as writer:
        writer.write(rows(("a", 2, 1, "n")))
    assert content(table) == [("a", 1, 1, "x"), ("a", 2, 1, "n"), ("b", 1, 1, "z")]


def test_a_failing_block_changes_nothing(lake) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"))
    with pytest.raises(ZeroDivisionError), table.writer(overwrite={"p": "a"}) as writer:
        writer.write(rows(("a", 1, 9, "no")))
        _ = 1 / 0
    assert content(table) == [("a", 1, 1, "x")]
    with pytest.raises(InvalidRequest, match="is complete"):
        writer.write(rows(("a", 1, 9, "no")))


def test_truncate_and_drop_partition(lake) -> None:
    table = partitioned(lake, keyed=False)
    write(table, ("a", 1, 1, "x"), ("a", 2, 1, "y"), ("b", 1, 1, "z"), (None, 1, 1, "n"), ("c", 1, 1, "c"))
    table.drop_partitions([{"p": None}, {"p": "a", "q": 2}])
    assert content(table) == [("a", 1, 1, "x"), ("b", 1, 1, "z"), ("c", 1, 1, "c")]
    before = table.latest_snapshot()
    with pytest.raises(NotFound, match="no partition p = 'x'"):
        table.drop_partitions([{"p": "a"}, {"p": "x"}])
    assert table.drop_partitions([{"p": "x"}], if_exists=True) is None
    assert table.latest_snapshot() == before
    table.truncate({"p": "b"})
    assert content(table) == [("a", 1, 1, "x"), ("c", 1, 1, "c")]
    table.truncate()
    assert content(table) == [] and table.latest_snapshot().total_record_count == 0


def test_epochs_that_wait_for_their_snapshot_are_replaced_too(lake) -> None:
    table = partitioned(lake)
    inner = table.logical
    committer = Committer(inner, "stream")
    for epoch in range(2):
        task = TaskWriter(inner, "stream", epoch, 0)
        task.write(rows(("a", 1, epoch, "waits"), ("b", 1, epoch, "waits")).to_batches()[0])
        committer.commit(epoch, [task.finish()])
    assert len(content(table)) == 4 and table.latest_snapshot() is None
    write(table, ("a", 1, 7, "new"), overwrite=True)
    assert content(table) == [("a", 1, 7, "new"), ("b", 1, 0, "waits"), ("b", 1, 1, "waits")]
    assert seal(committer) is None
    task = TaskWriter(inner, "stream", 2, 0)
    task.write(rows(("a", 1, 7, "after")).to_batches()[0])
    committer.commit(2, [task.finish()])
    seal(committer)
    assert content(table)[0] == ("a", 1, 7, "after")


def test_an_overwrite_of_unknown_outcome_happens_once(lake, monkeypatch) -> None:
    table = partitioned(lake)
    inner = table.logical
    write(table, ("a", 1, 1, "x"))
    task = TaskWriter(inner, "o", 0, 0, replaces=True)
    task.write(rows(("a", 1, 2, "new")).to_batches()[0])
    result = task.finish()
    first = commit_overwrite(inner, "o", [result], OverwriteTarget())
    write(table, ("a", 1, 3, "later"))
    assert commit_overwrite(inner, "o", [result], OverwriteTarget(), since=0) == first
    assert content(table) == [("a", 1, 2, "new"), ("a", 1, 3, "later")]


def test_an_overwrite_whose_snapshot_may_have_expired_does_not_happen_again(lake) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"))
    task = TaskWriter(table.logical, "o", 0, 0, replaces=True)
    task.write(rows(("a", 1, 2, "new")).to_batches()[0])
    result = task.finish()
    before = table.latest_snapshot().id
    assert commit_overwrite(table.logical, "o", [result], OverwriteTarget()) is not None
    write(table, ("a", 1, 3, "later"))
    table.expire_snapshots(retain_max=1)
    with pytest.raises(CommitUnknown, match="check the rows"):
        commit_overwrite(table.logical, "o", [result], OverwriteTarget(), since=before)
    assert content(table) == [("a", 1, 2, "new"), ("a", 1, 3, "later")]


def test_the_writer_asks_again_after_a_lost_answer(lake, monkeypatch) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"))
    writer = table.writer(overwrite=True)
    writer.write(rows(("a", 1, 2, "new")))
    real = type(table.logical.store).commit

    def lost(store, request):
        real(store, request)
        raise CommitUnknown("no answer")

    monkeypatch.setattr("lakelog.filestore.store.FileStore.commit", lost)
    with pytest.raises(CommitUnknown):
        writer.commit()
    monkeypatch.undo()
    assert writer.commit().id == table.latest_snapshot().id == 2
    assert content(table) == [("a", 1, 2, "new")]


def test_a_partition_that_appears_while_its_siblings_are_overwritten_is_replaced_with_them(lake, monkeypatch) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"))
    writer = table.writer(overwrite={"p": "a"})
    writer.write(rows(("a", 1, 2, "new")))
    real = type(table.logical.store).commit
    raced = threading.Event()

    def races(store, request):
        if not raced.is_set():
            raced.set()
            write(table, ("a", 5, 1, "raced"))
        return real(store, request)

    monkeypatch.setattr("lakelog.filestore.store.FileStore.commit", races)
    writer.commit()
    assert content(table) == [("a", 1, 2, "new")]


def test_large_runs_of_an_overwrite_keep_the_newest_row_of_a_key(lake) -> None:
    table = partitioned(lake, more=", 'write-buffer-size' = '64 kb'")
    write(table, *((("a"), 1, i, "old") for i in range(4000)))
    with table.writer(overwrite=True) as writer:
        writer.write(rows(*(("a", 1, i, "first") for i in range(3000))))
        writer.write(rows(*(("a", 1, i, "second") for i in range(1000, 3000))))
    found = content(table)
    assert [r[2] for r in found] == list(range(3000))
    assert [r[3] for r in found] == ["first"] * 1000 + ["second"] * 2000


def rescaled(lake, buckets: int) -> object:
    """The table after 'bucket' was changed, as ALTER TABLE does it: by a schema file."""
    location = lake.table("db.t").logical.location
    schema = location.schema
    changed = replace(schema, id=schema.id + 1, options={**schema.options, "bucket": str(buckets)})
    location.io.create(f"{location.path}/schema/schema-{changed.id}", changed.to_json())
    return lake.table("db.t")


def test_a_partition_is_rescaled_by_an_overwrite(lake) -> None:
    table = partitioned(lake)
    write(table, *(("a", 1, i, "x") for i in range(50)), *(("b", 1, i, "y") for i in range(50)))
    table = rescaled(lake, 5)
    assert len(content(table)) == 100
    with pytest.raises(InvalidRequest, match="p = 'b', q = 1 has 2 buckets, but 'bucket' is 5 now"):
        write(table, ("b", 1, 1, "refused"))
    write(table, *(("a", 1, i, "n") for i in range(60)), overwrite=True)
    write(table, ("a", 1, 3, "added"), ("c", 1, 3, "c"))
    found = {(e.total_buckets, e.bucket) for e in table.logical.store.live_entries(table.latest_snapshot())}
    assert {b for total, b in found if total == 5} == set(range(5)) and {t for t, _ in found} == {2, 5}
    assert len(content(table)) == 60 + 50 + 1
    assert [r for r in content(table) if r[2] == 3 and r[0] != "b"] == [("a", 1, 3, "added"), ("c", 1, 3, "c")]
    assert table.scan(filter="p = 'b' and id = 7").to_arrow().to_pylist() == [{"p": "b", "q": 1, "id": 7, "v": "y"}]


def test_rescale_writes_only_what_has_another_number_of_buckets(lake) -> None:
    table = partitioned(lake)
    write(table, *(("a", 1, i, "x") for i in range(50)), *(("b", 1, i, "y") for i in range(50)))
    before = content(table)
    table = rescaled(lake, 3)
    table.rescale({"p": "b"})
    assert {e.total_buckets for e in table.logical.store.live_entries(table.latest_snapshot())} == {2, 3}
    assert table.rescale({"p": "b"}) is None
    table.rescale()
    assert content(table) == before
    assert {e.total_buckets for e in table.logical.store.live_entries(table.latest_snapshot())} == {3}
    write(table, ("b", 1, 1, "new"))
    assert len(content(table)) == 100


def test_after_a_lost_answer_the_same_writer_can_be_asked_again(lake, monkeypatch) -> None:
    table = partitioned(lake)
    write(table, ("a", 1, 1, "x"))

    def lost(*given: object, **options: object) -> None:
        commit_overwrite(*given, **options)
        raise CommitUnknown("the answer was lost")

    writer = table.writer(overwrite=True)
    monkeypatch.setattr("lakelog.table.write.overwrite.commit_overwrite", lost)
    with pytest.raises(CommitUnknown), writer:
        writer.write(rows(("a", 1, 5, "new")))
    monkeypatch.undo()
    assert writer.commit().id == 2
    writer.close()
    assert content(table) == [("a", 1, 5, "new")]


@pytest.mark.parametrize("after", [0, 2], ids=["nothing", "rows"])
@pytest.mark.parametrize("failure", ["none", "refused", "half-way"])
def test_after_an_abort_only_later_rows_replace_the_target(lake, failure, after, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    table = partitioned(lake)
    write(table, ("a", 1, 1, "old"))
    new = [("a", 1, at, "new") for at in range(after)]
    with table.writer(overwrite=True) as writer:
        writer.write(rows(("a", 1, 9, "dropped")))
        if failure == "refused":
            with pytest.raises(InvalidSchema):
                writer.write(pa.table({"id": ["a"]}))
        if failure == "half-way":
            with monkeypatch.context() as broken, pytest.raises(OSError):
                broken.setattr(TaskWriter, "write", fails)
                writer.write(rows(("a", 1, 8, "lost")))
            with pytest.raises(InvalidRequest, match="earlier call failed"):
                writer.write(rows(("a", 1, 8, "refused")))
        writer.abort()
        if new:
            writer.write(rows(*new))
    assert content(table) == (new or [("a", 1, 1, "old")])
