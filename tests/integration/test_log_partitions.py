"""Another number of buckets, and dynamic buckets, of a table with a log on a real Kafka (RFC 18)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import connect
from lakelog.service.servers.server_process import KafkaBroker
from log_tables import files, folded, rows

UNION = {"read.mode": "union"}


@pytest.mark.parametrize("buckets", ["'bucket' = '2'", "'bucket' = '-1', 'log-store.partitions' = '2'"])
def test_the_topic_stays_while_the_buckets_change(kafka: KafkaBroker, tmp_path: Path, buckets: str) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ('log-store.enabled' = "
        f"'true', 'log-store.address' = '{kafka.bootstrap}', 'log-store.drop-with-table' = 'true', {buckets}, "
        "'dynamic-bucket.target-row-num' = '4')"
    )
    old = lake.table("db.t")
    with old.writer() as writer:
        writer.write(rows(*range(20), name="a"))
    tail = old.tail("earliest", stop="latest")
    assert sum(batch.num_rows for batch in tail) == 20
    if "-1" not in buckets:
        lake.sql("alter table db.t set tblproperties ('bucket' = '5')")
        lake.sql("call sys.rescale('db.t')")
    table = lake.table("db.t")
    assert (table.logical.log, len(table.logical.log.address)) == (old.logical.log, len(kafka.bootstrap))
    with old.writer() as before, table.writer() as after:
        before.write(rows(1, 2, name="b"))
        after.write(rows(3, 30, name="b"))
    changes = [row for batch in old.tail(tail.position, stop="latest") for row in batch.to_pylist()]
    assert {(row["id"], row["name"]) for row in changes} == {(n, "b") for n in (1, 2, 3, 30)}
    wanted = sorted((dict.fromkeys(range(20), "a") | dict.fromkeys((1, 2, 3, 30), "b")).items())
    assert files(table) == files(table, **UNION) == folded(table) == wanted
    assert len({e.bucket for e in table.logical.store.live_entries(table.latest_snapshot())}) > 2
    lake.sql("drop table db.t")
