from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.table.commit.append import commit_append
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.staging import staged_rows
from lakelog.table.staging.task_writer import TaskWriter
from limits import limit

LOGS = [
    "",
    "'log-store.enabled' = 'true', 'log.changelog-mode' = 'upsert'",
    "'log-store.enabled' = 'true', 'log.changelog-mode' = 'all'",
    "'log-store.enabled' = 'true', 'log-store.data-format' = 'arrow'",
    "'log-store.enabled' = 'true', 'log.consistency' = 'transactional'",
]


def make(tmp_path: Path, options: str) -> Table:
    lake = connect(warehouse=str(tmp_path))
    given = f", {options}" if options else ""
    lake.sql(
        f"create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ('bucket' = '2'{given})"
    )
    return lake.table("db.t")


def changes(*rows: tuple[str, int, str]) -> pa.Table:
    kinds, ids, names = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int32()), "name": names, "_row_kind": kinds})


def write(table: Table, rows: pa.Table) -> None:
    table.write(rows, missing="null")


def write_in_tasks(table: Table, *tasks: pa.Table) -> None:
    """One epoch whose tasks reach the log in this order."""
    dynamic, writer = table.logical, "w"
    if dynamic.log is not None:
        register_writer(dynamic, writer)
    made = [TaskWriter(dynamic, writer, 0, lane) for lane in range(len(tasks))]
    for task, rows in zip(made, tasks, strict=True):
        for batch in rows.to_batches():
            task.write(batch)
        task.flush_log()
    results = [task.finish() for task in made]
    if dynamic.log is None:
        commit_append(dynamic, writer, results)
        return
    committer = Committer(dynamic, writer, once=True)
    committer.commit(0, results)
    if dynamic.schema.options.get("log.consistency") != "transactional":
        assert readings(table) == [readings(table)[0]] * len(readings(table))
    seal(committer)


def readings(table: Table) -> list[dict[int, str]]:
    """What each kind of reader finds: files, both stores, the changes, and a plain consumer of the log."""
    found = [{r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()}]
    if table.logical.log is None:
        return found
    union = table.scan(options={"read.mode": "union"}).to_arrow().to_pylist()
    found.append({r["id"]: r["name"] for r in union})
    tail: dict[int, str] = {}
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            tail.pop(row["id"], None)
            if row["_row_kind"] in ("+I", "+U"):
                tail[row["id"]] = row["name"]
    found.append(tail)
    if table.logical.schema.options.get("log-store.data-format") != "arrow":
        plain: dict[int, str] = {}
        for chunk in table.log_records():
            for key, value in zip(chunk["key"].to_pylist(), chunk["value"].to_pylist(), strict=True):
                if key is not None and value is not None:
                    after = json.loads(value)["after"]
                    plain.pop(json.loads(key)["id"], None)
                    if after is not None:
                        plain[after["id"]] = after["name"]
        found.append(plain)
    return found


def check(table: Table, wanted: dict[int, str]) -> None:
    found = readings(table)
    assert found == [wanted] * len(found)


OLD, NEW = ("-U", 1, "a"), ("+U", 1, "A")


@pytest.mark.parametrize("options", LOGS)
@pytest.mark.parametrize("tasks", [[[NEW], [OLD]], [[OLD], [NEW]], [[NEW, OLD]], [[NEW], [("+I", 9, "z"), OLD]]])
def test_the_halves_of_an_update_may_come_in_any_order_and_from_any_task(tmp_path, options, tasks) -> None:
    table = make(tmp_path, options)
    write(table, changes(("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")))
    write_in_tasks(table, *(changes(*rows) for rows in tasks), changes(("-D", 2, "b"), ("+I", 4, "d")))
    others = {9: "z"} if any(("+I", 9, "z") in rows for rows in tasks) else {}
    check(table, {1: "A", 3: "c", 4: "d", **others})


@pytest.mark.parametrize("options", LOGS)
def test_a_late_old_half_in_a_later_batch_of_one_task_deletes_nothing(tmp_path, options) -> None:
    table = make(tmp_path, options)
    write(table, changes(("+I", 1, "a")))
    with table.writer() as writer:
        writer.write(changes(("+U", 1, "A"), ("+I", 2, "b")))
        writer.write(changes(OLD))
    check(table, {1: "A", 2: "b"})


@pytest.mark.parametrize("options", LOGS)
def test_an_old_half_alone_deletes_its_key(tmp_path, options) -> None:
    table = make(tmp_path, options)
    write(table, changes(("+I", 1, "a"), ("+I", 2, "b")))
    write_in_tasks(table, changes(OLD), changes(("+U", 2, "B")))
    check(table, {2: "B"})


@pytest.mark.parametrize("options", LOGS)
def test_a_delete_after_an_insert_deletes(tmp_path, options) -> None:
    table = make(tmp_path, options)
    write_in_tasks(table, changes(("+I", 1, "a"), ("+I", 2, "b"), ("-D", 1, "a")))
    check(table, {2: "b"})


@pytest.mark.parametrize("options", LOGS)
def test_late_update_befores_next_to_data_files_delete_nothing(tmp_path, monkeypatch, options) -> None:
    table = make(tmp_path, options)
    write(table, changes(*(("+I", i, "a") for i in range(200))))
    limit(monkeypatch, inline_bytes=0)
    olds = [("-U", i, "a") for i in range(100)]
    write_in_tasks(table, changes(*(("+U", i, "A") for i in range(99))), changes(*olds, ("+I", 500, "n")))
    check(table, {**dict.fromkeys(range(99), "A"), **dict.fromkeys(range(100, 200), "a"), 500: "n"})
    write(table, changes(("+U", 7, "last")))
    assert readings(table)[0][7] == "last"


def test_a_chain_of_changes_in_order_stays_a_chain(tmp_path) -> None:
    table = make(tmp_path, LOGS[2])
    told = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-U", 1, "b"), ("+U", 1, "c")]
    write(table, changes(*told))
    check(table, {1: "c"})
    rows = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert [(r["_row_kind"], r["id"], r["name"]) for r in rows] == told


def test_halves_in_the_wrong_order_in_one_batch_are_one_update_in_the_log(tmp_path) -> None:
    table = make(tmp_path, LOGS[2])
    write(table, changes(("+I", 1, "a")))
    write(table, changes(NEW, OLD))
    rows = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert [(r["_row_kind"], r["name"]) for r in rows] == [("+I", "a"), ("-U", "a"), ("+U", "A")]


GONE = {
    "insert": ["+I a", "-U a"],
    "update": ["-U z", "+U a", "-U a"],
    "chain": ["+I z", "-U z", "+U a", "-U a"],
    "delete before": ["-D z", "+I a", "-U a"],
    "late half, too": ["+U a", "-U z", "-U a"],
    "two batches": ["+U a", "", "-U a"],
    "a chain in two batches": ["-U z", "+U a", "", "-U a"],
}
"""Changes of a key in one epoch, whose last -U equals the newest insertion; "" starts another batch."""


@pytest.mark.parametrize("size", [staged_rows.INLINE_BYTES, 0], ids=["inline", "files"])
@pytest.mark.parametrize("way", ["one task", "tasks", "spilled"])
@pytest.mark.parametrize("options", LOGS)
def test_an_old_half_that_equals_the_newest_row_of_its_key_takes_it_back(
    tmp_path, monkeypatch, options, way, size
) -> None:
    spills = ["'write-buffer-size' = '1 b'"] if way == "spilled" else []
    table = make(tmp_path, ", ".join(filter(None, [options, *spills])))
    write(table, changes(*(("+I", key, "z") for key in range(len(GONE))), ("+I", 98, "b")))
    limit(monkeypatch, inline_bytes=size)
    batches: list[list[tuple[str, int, str]]] = [[], [("+I", 99, "n")]]
    for key, told in enumerate(GONE.values()):
        at = 0
        for change in told:
            at += not change
            batches[at] += [(change[:2], key, change[3:])] if change else []
    parts = [changes(*rows) for rows in batches]
    write_in_tasks(table, *(parts if way == "tasks" else [pa.concat_tables(parts)]))
    check(table, {98: "b", 99: "n"})


def test_by_a_sequence_field_the_newest_row_is_the_one_with_the_largest(tmp_path) -> None:
    table = make(tmp_path, "'sequence.field' = 'name'")
    write(
        table, changes(("+I", 1, "z"), ("+I", 1, "b"), ("-U", 1, "z"), ("+I", 2, "z"), ("+I", 2, "b"), ("-U", 2, "b"))
    )
    check(table, {2: "z"})


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_a_late_old_half_deletes_nothing_that_is_not_there(tmp_path, form) -> None:
    table = make(tmp_path, f"'log-store.enabled' = 'true', 'log-store.data-format' = '{form}'")
    write(table, changes(("+I", 1, "a")))
    write(table, changes(("-D", 1, "a"), ("+I", 1, "b"), ("-U", 1, "a")))
    there: set[int] = set()
    for batch in table.tail("earliest", stop="latest", options={"log.consistency": "transactional"}):
        for row in batch.to_pylist():
            if row["_row_kind"] == "-D":
                there.remove(row["id"])
            else:
                there.add(row["id"])
    assert there == {1}
