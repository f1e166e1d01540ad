"""Rejected rows under faults: rollback, damaged and hostile files, updates over two batches, memory, expiry."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Corrupt
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal_staged
from lakelog.table.log.register import register_follower
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.staging import task_writer
from lakelog.table.write import materializer
from log_tables import log_of
from rejected_tables import JSON_LOG, LOG, append, given, ids, inserted, make, rejected, reopened

FILES = "'write-only' = 'true'"
BOTH = pytest.mark.parametrize("options", [f"{LOG}, {FILES}", FILES], ids=["log", "files"])
FIX = "alter column name drop not null"
COLUMNS = "id int, name string not null"


def without_key(place: Path, options: str = FILES, columns: str = COLUMNS) -> Table:
    """A table in which a row may be twice: a key would hide it."""
    return make(place, f"{options}, 'bucket-key' = 'id'", columns, "")


def files(table: Table, pattern: str = "rows/*.parquet") -> list[Path]:
    return sorted((Path(table.path) / "lakelog" / "rejected").glob(pattern))


def send(table: Table, *numbers: int) -> None:
    """Writes rows of which each odd one is rejected, because it has no name."""
    with table.writer() as writer:
        names = [None if number % 2 else "a" for number in numbers]
        writer.write(pa.table({"id": pa.array(numbers, pa.int32()), "name": names}))


def kept(table: Table) -> list[int]:
    """The ids of the rejected rows."""
    return sorted(int(str(r["text"])[3:].partition(",")[0]) for r in rejected(table, "text") if r["text"])


@BOTH
def test_a_rollback_takes_a_replay_back_with_its_rows(tmp_path, options) -> None:
    table = without_key(tmp_path, options)
    send(table, 1, 2, 3)
    before = table.logical.store.latest_snapshot()
    assert before is not None
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 2
    assert (ids(table), kept(table)) == ([1, 2, 3], [])
    table.rollback_to(snapshot_id=before.id, files_only=True)
    table = reopened(tmp_path)
    assert (ids(table), kept(table)) == ([2], [1, 3])
    assert (table.replay_rejected().written, table.replay_rejected().written) == (2, 0)
    assert (ids(table), kept(table)) == ([1, 2, 3], [])


@BOTH
def test_a_rollback_takes_rejected_rows_back_with_their_epoch(tmp_path, options) -> None:
    table = without_key(tmp_path, options)
    send(table, 1, 2)
    before = table.logical.store.latest_snapshot()
    assert before is not None
    send(table, 3, 4)
    assert kept(table) == [1, 3]
    table.rollback_to(snapshot_id=before.id, files_only=True)
    table = reopened(tmp_path, FIX)
    assert kept(table) == [1]
    assert (table.replay_rejected().written, ids(table)) == (1, [1, 2])


def test_a_follower_goes_on_after_a_rollback_of_the_files_alone(tmp_path) -> None:
    table = without_key(tmp_path, f"{JSON_LOG}, {FILES}")
    register_follower(table.logical)
    nameless = b'{"before":null,"after":{"id":%d,"name":null},"op":"c"}'
    append(table, 0, inserted(1), nameless % 2)
    list(table.follow(stop="latest"))
    first = table.logical.store.latest_snapshot()
    assert first is not None
    append(table, 0, inserted(3), nameless % 4)
    list(table.follow(stop="latest"))
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 2
    table.rollback_to(snapshot_id=first.id, files_only=True)
    append(table, 0, inserted(5))
    list(reopened(tmp_path).follow(stop="latest"))
    table = reopened(tmp_path)
    assert ids(table) == [1, 5]
    assert (table.replay_rejected().written, ids(table)) == (1, [1, 2, 5])


@pytest.mark.parametrize("key", ["", ", primary key (id)"], ids=["keyless", "keyed"])
def test_a_replay_takes_rows_of_an_epoch_that_waits_for_its_snapshot_once(tmp_path, key) -> None:
    more = "" if key else ", 'bucket-key' = 'id'"
    table = make(tmp_path, f"{LOG}, {FILES}{more}", COLUMNS, key)
    committer = Committer(table.logical, "query")
    task = task_writer.TaskWriter(
        table.logical, "query", 0, 0, rejects=task_writer.Rejects.of(table.logical, "query", 0, 0)
    )
    rows = {"id": pa.array([1, 2], pa.int32()), "name": [None, "a"]}
    task.write(pa.record_batch(rows))
    committer.commit(0, [task.finish()])
    assert kept(table) == [1]
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 1
    seal_staged(table.logical)
    assert (ids(table), kept(table), table.replay_rejected().written) == ([1, 2], [], 0)


def test_a_branch_has_the_rejected_rows_of_its_snapshot_and_replays_them_for_itself(tmp_path) -> None:
    table = without_key(tmp_path)
    send(table, 1, 2)
    table = reopened(tmp_path, FIX)
    send(table, 4)
    table.create_tag("t")
    table.create_branch("b", "t")
    branch = connect(warehouse=str(tmp_path / "warehouse")).table("db.t$branch_b")
    assert branch.replay_rejected().written == 1
    assert (ids(branch), ids(table), kept(table)) == ([1, 2, 4], [2, 4], [1])
    table.remove_orphan_files(timedelta(0))
    assert (table.replay_rejected().written, ids(table), kept(table)) == (1, [1, 2, 4], [])


def test_a_damaged_file_of_rows_is_reported_and_the_others_are_read_and_replayed(tmp_path) -> None:
    table = without_key(tmp_path)
    send(table, 1, 2)
    [damaged] = files(table)
    send(table, 3, 4)
    damaged.write_bytes(b"not Parquet")
    reasons = [str(row["reason"]) for row in rejected(table)]
    assert (kept(table), sum(damaged.name in reason for reason in reasons)) == ([3], 1)
    table = reopened(tmp_path, FIX)
    assert (table.replay_rejected().written, ids(table)) == (1, [2, 3, 4])
    assert [damaged.name in str(row["reason"]) for row in rejected(table)] == [True]


def test_a_file_that_is_gone_is_reported_and_no_replay_forgets_it(tmp_path) -> None:
    table = without_key(tmp_path)
    send(table, 1, 2)
    [gone] = files(table)
    data = gone.read_bytes()
    gone.unlink()
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 0
    assert [gone.name in str(row["reason"]) for row in rejected(table)] == [True]
    gone.write_bytes(data)
    assert (table.replay_rejected().written, ids(table)) == (1, [1, 2])


HOSTILE = [
    [0, "w", 0, "../../schema/schema-0", 1],
    ["x", "w", 0, "00000000-0000-0000-0000-000000000000.parquet", 1],
    [1, "w", 0, "00000000-0000-0000-0000-000000000000.parquet", -5],
    None,
]


@pytest.mark.parametrize("entry", [*HOSTILE, "no list"], ids=["path", "time", "rows", "null", "no-list"])
def test_a_hostile_entry_is_reported_with_its_path_and_the_others_are_read(tmp_path, entry) -> None:
    table = without_key(tmp_path)
    send(table, 1, 3, 5, 7)
    [path] = files(table, "*.json")
    found = json.loads(path.read_bytes())
    path.write_text("{" if entry == "no list" else json.dumps({"entries": [*found["entries"], entry]}))
    good = [] if entry == "no list" else [1, 3, 5, 7]
    assert kept(table) == good
    assert [str(path) in str(r["reason"]) for r in rejected(table, "reason", "format") if r["format"] == "unreadable"]
    send(table, 9)
    assert set(kept(table)) == {*good, 9}
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == len(good) + 1
    assert ids(table) == [*good, 9]
    table.remove_orphan_files(timedelta(0))


@pytest.mark.parametrize("field", ["rejected", "replays"])
@pytest.mark.parametrize("name", ["../../../etc/x.parquet", "/x.parquet", 7, "x"])
def test_a_hostile_epoch_record_is_corrupt(field, name) -> None:
    attempt = AttemptResult("w", 0, "a")
    data = EpochRecord("w", 0, 1, (attempt,)).to_bytes()
    header = json.loads(data[12:])
    header["attempts"][0][field] = [[name, 1, 0]] if field == "rejected" else [name]
    text = json.dumps(header).encode()
    with pytest.raises(Corrupt, match=r"record-path.*is not the name of a file of rejected rows"):
        EpochRecord.from_bytes(data[:8] + len(text).to_bytes(4, "little") + text, "record-path")


def update(number: int, before: object, after: object, kinds: str = "-U+U") -> pa.Table:
    kind = [k for k in ("-U", "+U") if k in kinds]
    much = pa.array([v for k, v in (("-U", before), ("+U", after)) if k in kinds], pa.int64())
    return pa.table({"id": pa.array([number] * len(kind), pa.int32()), "much": much, "_row_kind": kind})


@BOTH
@pytest.mark.parametrize("action", ["keep", "skip"])
@pytest.mark.parametrize("bad", ["-U", "+U"])
def test_an_update_over_two_batches_is_rejected_as_a_whole(tmp_path, options, action, bad) -> None:
    table = make(tmp_path, options, "id int, much int")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1, 2], pa.int32()), "much": pa.array([1, 1], pa.int32())}))
    wrong = 2**40
    with table.writer(options={"on-bad-record": action}) as writer:
        writer.write(update(1, wrong if bad == "-U" else 1, None, "-U"))
        writer.write(update(1, None, wrong if bad == "+U" else 5, "+U"))
        writer.write(update(2, 1, 7, "-U"))
        writer.write(update(2, 1, 7, "+U"))
    assert sorted((r["id"], r["much"]) for r in table.scan().to_arrow().to_pylist()) == [(1, 1), (2, 7)]
    assert [row["row"] for row in rejected(table, "row")] == ([0, 1] if action == "keep" else [])


def test_columns_of_views_are_judged_as_others(tmp_path) -> None:
    table = without_key(tmp_path, FILES, "id int not null, name string not null, data binary, tags array<string>")
    with table.writer() as writer:
        writer.write(
            pa.table(
                {
                    "id": pa.array([1, 2, None], pa.int32()),
                    "name": pa.array(["a", None, "a longer text than fits in a view"], pa.string_view()),
                    "data": pa.array([b"x", b"y", b"z"], pa.binary_view()),
                    "tags": pa.array([["t"], [], None], pa.list_(pa.string_view())),
                }
            )
        )
    assert ids(table) == [1]
    assert [row["text"] for row in rejected(table, "text")] == [
        "id=2, name=None, data=y, tags=[]",
        "id=None, name=a longer text than fits in a view, data=z, tags=None",
    ]


@pytest.mark.parametrize("failure", [pa.ArrowMemoryError("out of memory"), MemoryError()])
def test_no_memory_is_no_bad_row(tmp_path, monkeypatch, failure) -> None:
    table = without_key(tmp_path)

    def check_values(*_: object) -> None:
        raise failure

    monkeypatch.setattr(task_writer, "check_values", check_values)
    with pytest.raises(MemoryError), table.writer() as writer:
        writer.write(given(1, 2))
    assert (ids(table), rejected(table)) == ([], [])


def test_a_long_reason_is_cut(tmp_path) -> None:
    table = make(tmp_path, JSON_LOG)
    register_follower(table.logical)
    append(table, 0, b'{"before":null,"after":{"id":"' + b"x" * 50_000 + b'","name":"a"},"op":"c"}', inserted(1))
    list(table.follow(stop="latest"))
    [row] = rejected(table, "reason", "value")
    assert (ids(table), len(str(row["reason"])) <= 1_001, len(row["value"]) > 50_000) == ([1], True, True)  # type: ignore[arg-type]


def test_a_follower_reads_no_more_at_a_time_than_fits_into_memory(tmp_path, monkeypatch) -> None:
    table = make(tmp_path, f"{JSON_LOG}, {FILES}")
    register_follower(table.logical)
    sent = [b"garbage" * 10_000 if number % 2 else inserted(number) for number in range(200)]
    append(table, 0, *sent)
    monkeypatch.setattr(materializer, "_READ_BYTES", 1 << 20, raising=False)
    monkeypatch.setattr(materializer, "_FIRST_RECORDS", 10, raising=False)
    log = log_of(table)
    made, sizes = type(reader_for(log)), []
    read = made.read

    def measured(self: Any, *given: Any) -> pa.Table:
        found = read(self, *given)
        sizes.append(found.nbytes)
        return found

    monkeypatch.setattr(made, "read", measured)
    list(table.follow(stop="latest"))
    assert (len(ids(table)), len(rejected(table))) == (100, 100)
    assert max(sizes) < 3 << 20


def test_an_epoch_that_is_rejected_as_a_whole_does_not_read_the_log_from_its_start(tmp_path, monkeypatch) -> None:
    table = without_key(tmp_path, f"{LOG}, {FILES}", "id int not null, name string")
    with table.writer() as writer:
        writer.write(given(*range(1, 50)))
    only_files = table.logical.with_hints({"emit.mode": "file", "on-bad-record": "keep"})
    committer = Committer(only_files, "w", once=True)
    rejects = task_writer.Rejects.of(only_files, "w", 0, 0)
    task = task_writer.TaskWriter(only_files, "w", 0, 0, rejects=rejects)
    task.write(given(None).to_batches()[0])
    committer.commit(0, [task.finish()])
    log = log_of(table)
    made, starts = type(reader_for(log)), []
    read = made.read

    def noted(self: Any, bucket: int, start: int, *more: Any) -> pa.Table:
        starts.append(start)
        return read(self, bucket, start, *more)

    monkeypatch.setattr(made, "read", noted)
    assert seal_staged(table.logical)
    assert 0 not in starts
    monkeypatch.undo()
    assert len(rejected(table)) == 1


def test_a_file_stays_while_a_tag_names_it(tmp_path) -> None:
    table = without_key(tmp_path)
    send(table, 1, 2)
    table.create_tag("before")
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 1
    send(table, 4)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.remove_orphan_files(timedelta(0))
    table.rollback_to(tag="before")
    table = reopened(tmp_path)
    assert (ids(table), kept(table)) == ([2], [1])
    assert (table.replay_rejected().written, ids(table)) == (1, [1, 2])


def test_a_file_that_nothing_names_is_deleted_also_beside_a_damaged_one(tmp_path) -> None:
    table = without_key(tmp_path)
    send(table, 1)
    files(table)[0].write_bytes(b"damaged")
    send(table, 3)
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 1
    assert len(files(table)) == 2
    send(table, 2)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    table.remove_orphan_files(timedelta(0))
    assert [path.read_bytes() for path in files(table)] == [b"damaged"]


def test_rows_expire_beside_a_damaged_list_and_whatever_names_them(tmp_path) -> None:
    table = without_key(tmp_path)
    send(table, 1, 3)
    send(table, 5)
    table.create_tag("t")
    for path in files(table, "*.json"):
        path.write_bytes(b"damaged")
    send(table, 7)
    table = reopened(tmp_path, "set tblproperties ('rejected.retention' = '0 ms')")
    assert rejected(table) == []
    table.remove_orphan_files(timedelta(0))
    assert files(table) == []


def test_a_replay_does_not_prolong_the_retention(tmp_path) -> None:
    table = without_key(tmp_path, FILES, "id int not null, name string not null")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1, None], pa.int32()), "name": [None, None]}))
    [before] = [row["time"] for row in rejected(table, "time", "row") if row["row"] == 1]
    table = reopened(tmp_path, FIX)
    assert table.replay_rejected().written == 1
    [row] = rejected(table, "time", "row")
    assert (row["time"], row["row"]) == (before, 1)
    entries = json.loads(files(table, "*.json")[-1].read_bytes())["entries"]
    assert len(entries) == 1
    assert entries[0][0] < table.logical.store.latest_snapshot().time_millis  # type: ignore[union-attr]
