"""``lakelog ingest`` of large transactions: the server keeps the connection, and memory has a bound."""

from __future__ import annotations

import time

import pytest

from lakelog.service.ingest import rows
from lakelog.service.ingest.rows import RowBuffer
from lakelog.table.write.positioned_writer import PositionedWriter
from source_database import differences, ingested

pytestmark = pytest.mark.postgres


def test_a_truncate_that_takes_longer_than_the_servers_patience_keeps_the_connection(
    database, lake, monkeypatch
) -> None:
    patience_s, buckets = 3.0, 6
    database.run("create table t (id int primary key)", "insert into t select generate_series(1, 1000)")
    ingested(lake, database, "t", options={"bucket": str(buckets)})
    database.run("truncate t", "insert into t values (7)")
    write, written = PositionedWriter.write, list[int]()

    def slowly(writer: PositionedWriter, batch) -> None:
        write(writer, batch)
        written.append(batch.num_rows)
        time.sleep(2 * patience_s / buckets)  # the server's own clock decides

    monkeypatch.setattr(PositionedWriter, "write", slowly)
    source = f"{database.url}?options=-c%20wal_sender_timeout%3D{int(patience_s * 1000)}"
    run = lake.ingest(source, ["t"], "db").run(once=True)
    for progress in run:
        assert progress.phase == "stream", progress.why
    assert len(written) >= buckets
    assert differences(lake, database, "t") == []


def test_updates_without_their_large_values_do_not_fill_the_memory(database, lake, monkeypatch) -> None:
    large = "(select string_agg(md5((g * 1000 + n)::text), '') from generate_series(1, 2000) n)"  # 64 KB
    database.run("create table t (id int primary key, v int, big text)", "alter table t alter big set storage external")
    database.run(f"insert into t select g, 0, {large} from generate_series(1, 400) g")
    ingested(lake, database, "t")
    monkeypatch.setattr(rows, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(rows, "_MOST_KEPT", 4 << 20)
    take, sizes = RowBuffer.take, list[int]()

    def measured(buffer: RowBuffer, find):
        batch = take(buffer, find)
        sizes.append(0 if batch is None else batch.nbytes)
        return batch

    monkeypatch.setattr(RowBuffer, "take", measured)
    database.run("begin; update t set v = 1; update t set v = v + 1 where id % 2 = 0; update t set id = -id; commit")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    assert max(sizes) < 3 << 20
    assert sum(sizes) > 60 << 20


def test_updates_of_one_key_in_one_transaction_are_read_once(database, lake, monkeypatch) -> None:
    monkeypatch.setattr(rows, "_MOST_ROWS", 100)
    looked, key_values = [0], RowBuffer._key_values

    def counted(buffer: RowBuffer, arrays):
        looked[0] += len(arrays[0])
        return key_values(buffer, arrays)

    monkeypatch.setattr(RowBuffer, "_key_values", counted)
    large = "(select string_agg(md5((g * 1000 + n)::text), '') from generate_series(1, 100) n)"
    database.run("create table t (id int primary key, v int, big text)", "alter table t alter big set storage external")
    ingested(lake, database, "t")
    changes = "; ".join(f"update t set v = {n}" for n in range(30))
    database.run(f"begin; insert into t select g, 0, {large} from generate_series(1, 100) g; {changes}; commit")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    assert looked[0] < 3 * 3100
