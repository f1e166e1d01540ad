"""Schema changes of a table with a log at the edges: branches, unknown schemas, values that no longer fit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import Lake
from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import DATA, FOREIGN, decode_header, encode_header
from lakelog.options.table import MISSING_AS_NULL
from lakelog.paimon.schema.changes import ChangeType, RenameColumn, SetOption
from lakelog.paimon.types.types import INT, AtomicType
from lakelog.table.commit.committer import Committer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import log_of

FORMATS = ("debezium-json", "arrow")


def create(lake: Lake, form: str, columns: str = "id int, n int, o int", key: str = ", primary key (id)") -> Table:
    lake.sql(
        f"create table db.t ({columns}{key}) using lakelog tblproperties ('bucket' = '1', 'bucket-key' = 'id', "
        f"'write-only' = 'true', 'log-store.enabled' = 'true', 'log-store.data-format' = '{form}')"
    )
    return lake.table("db.t")


def write(table: Table, **columns: pa.Array) -> None:
    table.write(pa.table(columns), missing="null")


def in_log(table: Table) -> list[dict[str, object]]:
    return [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]


def skipping(lake: Lake) -> Table:
    lake.sql("alter table db.t set tblproperties ('scan.on-bad-record' = 'skip')")
    return lake.table("db.t")


def append_unknown(table: Table, number: int = 99) -> None:
    log = log_of(table)
    appender = appender_for(log)
    value = pa.array([b'{"before":null,"after":{"id":7,"n":7,"o":7},"op":"c"}'], pa.large_binary())
    key = pa.array([b'{"id":7}'], pa.large_binary())
    appender.append(0, Records(key, value, encode_header(DATA, "", 0, "", schema=number)))
    appender.flush()


@pytest.mark.parametrize("form", FORMATS)
def test_a_fast_forward_keeps_the_schemas_that_records_name(lake: Lake, form: str) -> None:
    table = create(lake, form)
    write(table, id=pa.array([1], pa.int32()), n=pa.array([20], pa.int32()), o=pa.array([21], pa.int32()))
    lake.run("call sys.create_branch('db.t', 'b')")
    lake.table("db.t").branch("b")
    table.branch("b").write(pa.table({"id": pa.array([5], pa.int32()), "n": pa.array([5], pa.int32())}), missing="null")
    table.alter(RenameColumn(("n",), "m"))
    write(table, id=pa.array([2], pa.int32()), m=pa.array([30], pa.int32()), o=pa.array([31], pa.int32()))
    lake.run("call sys.fast_forward('db.t', 'b', true)")
    assert sorted((r["id"], r["m"]) for r in in_log(lake.table("db.t"))) == [(1, 20), (2, 30)]
    assert [(r["id"], r["m"]) for r in lake.table("db.t").scan().to_arrow().to_pylist()] == [(5, 5)]


def test_a_handle_of_a_branch_does_not_alter_main(lake: Lake) -> None:
    create(lake, "arrow")
    lake.run("call sys.create_branch('db.t', 'b')")
    with pytest.raises(UnsupportedFeature, match="branch"):
        lake.table("db.t$branch_b").alter(RenameColumn(("n",), "m"))
    assert lake.table("db.t").schema.names == ["id", "n", "o"]


def test_a_record_of_an_unknown_schema_is_named_and_can_be_skipped(lake: Lake) -> None:
    table = create(lake, "debezium-json")
    write(table, id=pa.array([1], pa.int32()), n=pa.array([1], pa.int32()))
    append_unknown(table)
    write(table, id=pa.array([2], pa.int32()), n=pa.array([2], pa.int32()))
    with pytest.raises(Corrupt, match=r"offset \d+ of bucket 0 .*names schema 99, which table db\.t does not have"):
        in_log(table)
    assert [row["id"] for row in in_log(skipping(lake))] == [1, 2]


def test_a_writer_commits_beside_a_record_of_an_unknown_schema(lake: Lake) -> None:
    """The rejected attempt has a record of the same key, so its healing reads the unknown one, too."""
    table = create(lake, "debezium-json")
    rows = pa.record_batch({"id": pa.array([7], pa.int32()), "n": pa.array([1], pa.int32())})
    for attempt in range(2):
        task = TaskWriter(table.logical.with_hints(MISSING_AS_NULL), "w", 0, lane=0)
        task.write(rows)
        result = task.finish()
        if attempt == 0:
            append_unknown(table)
    Committer(table.logical, "w").commit(0, [result])
    assert lake.table("db.t").scan().to_arrow()["n"].to_pylist() == [1]


def test_a_header_with_a_schema_id_that_is_no_id_is_not_of_lakelog() -> None:
    assert decode_header(encode_header(DATA, "", 0, "", schema=10**25), 3).kind == FOREIGN
    assert decode_header(b"2|d||0||||00000000001" + b"9" * 20, 3).kind == FOREIGN


@pytest.mark.parametrize("form", FORMATS)
def test_a_value_that_the_new_type_does_not_have_is_named_and_can_be_skipped(lake: Lake, form: str) -> None:
    table = create(lake, form, "id int, s string")
    with table.writer(missing="null") as writer:
        for numbers, texts in ([1], ["x"]), ([1, 2], ["10", "20"]):
            writer.write(pa.table({"id": pa.array(numbers, pa.int32()), "s": texts}))
    table.alter(SetOption("disable-explicit-type-casting", "false"), ChangeType(("s",), INT))
    assert sorted((r["id"], r["s"]) for r in lake.table("db.t").scan().to_arrow().to_pylist()) == [(1, 10), (2, 20)]
    with pytest.raises(Corrupt, match=r"offset \d+ of bucket 0 .*To skip it, read with 'scan.on-bad-record'='skip'"):
        in_log(lake.table("db.t"))
    rows = in_log(skipping(lake))
    assert [(row["id"], row["s"]) for row in rows] == [(1, 10), (2, 20)]


@pytest.mark.parametrize("form", FORMATS)
def test_nan_fits_the_former_type(lake: Lake, form: str) -> None:
    table = create(lake, form, "id int, f float")
    lake.table("db.t").alter(ChangeType(("f",), AtomicType("DOUBLE")))
    write(lake.table("db.t"), id=pa.array([1, 2], pa.int32()), f=pa.array([float("nan"), 1.5]))
    tail = table.tail("earliest", stop="latest")
    found = [row["f"] for batch in tail for row in batch.to_pylist()]
    assert found[0] != found[0] and found[1] == 1.5


@pytest.mark.parametrize("form", FORMATS)
def test_records_of_old_and_new_writers_by_turns_are_one_batch(lake: Lake, form: str) -> None:
    old = create(lake, form)
    lake.table("db.t").alter(RenameColumn(("n",), "m"))
    new = lake.table("db.t")
    with old.writer(missing="null") as first, new.writer(missing="null") as second:
        for number in range(10):
            first.write(pa.table({"id": pa.array([number], pa.int32()), "n": pa.array([number], pa.int32())}))
            second.write(pa.table({"id": pa.array([100 + number], pa.int32()), "m": pa.array([number], pa.int32())}))
    batches = list(lake.table("db.t").tail("earliest", stop="latest"))
    assert max(batch.num_rows for batch in batches) > 1
    assert sorted(row["m"] for batch in batches for row in batch.to_pylist()) == sorted([*range(10)] * 2)
