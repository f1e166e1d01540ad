"""A stream with garbage never stops: what does not fit is in ``t$rejected`` once; a replay writes it after a fix."""

from __future__ import annotations

import json
import os

import pytest

BAD = 10


def send(directory, batch: int) -> None:
    """A file of fifty rows; each tenth has no name, one in fifty no id."""
    os.makedirs(directory, exist_ok=True)
    rows = [{"id": None if i % 50 == 7 else i, "name": None if i % BAD == 0 else f"n{i}"} for i in _ids(batch)]
    with open(f"{directory}/{batch}.part", "w", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, rows)))
    os.rename(f"{directory}/{batch}.part", f"{directory}/{batch}.json")


def _ids(batch: int) -> range:
    return range(batch * 50, batch * 50 + 50)


def start(lake, spark, directory):
    os.makedirs(directory, exist_ok=True)
    reader = spark.readStream.schema("id bigint, name string").option("pathGlobFilter", "*.json")
    return lake.write_stream(reader.json(str(directory)).repartition(2), "db.t", str(directory) + "-checkpoint")


@pytest.mark.parametrize("more", ["'log-store.enabled' = 'true'", "'write-only' = 'true'"], ids=["log", "files"])
def test_a_stream_goes_on_and_keeps_what_does_not_fit(lake, spark, tmp_path, more) -> None:
    lake.sql(
        "create table db.t (id bigint not null, name string not null) using lakelog "
        f"tblproperties ('bucket' = '2', 'bucket-key' = 'id', 'on-bad-record' = 'keep', {more})"
    )
    place = tmp_path / "in"
    query = start(lake, spark, place)
    send(place, 0)
    query.processAllAvailable()
    query.stop()
    commits = tmp_path / "in-checkpoint" / "commits"
    max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name)).unlink()
    query = start(lake, spark, place)  # Spark sends the last micro-batch again
    send(place, 1)
    query.processAllAvailable()
    query.stop()
    lake.table("db.t").seal()
    bad = [i for i in range(100) if i % BAD == 0]
    good = [i for i in range(100) if i % BAD and i % 50 != 7]
    assert sorted(r.id for r in lake.sql("select id from db.t").collect()) == good
    found = lake.sql("select text, reason, epoch, task from db.t$rejected").collect()
    texts = sorted(r.text for r in found)
    assert texts == sorted([*(f"id={i}, name=None" for i in bad), *(f"id=None, name=n{b * 50 + 7}" for b in range(2))])
    assert {r.epoch for r in found} == {0, 1}
    lake.sql("alter table db.t alter column name drop not null")
    assert lake.sql("call sys.replay_rejected('db.t')").to_arrow().to_pylist() == [
        {"written_rows": len(bad), "rejected_rows": 2}
    ]
    assert sorted(r.id for r in lake.sql("select id from db.t").collect()) == sorted([*good, *bad])
    assert lake.sql("select count(*) as n from db.t$rejected where reason like '%column \\'id\\'%'").collect()[0].n == 2


@pytest.mark.parametrize("more", ["'log-store.enabled' = 'true'", "'write-only' = 'true'"], ids=["log", "files"])
def test_a_batch_rejects_what_violates_a_constraint_and_changes_of_rows_fail(lake, spark, more) -> None:
    lake.sql(
        "create table db.t (id bigint, v bigint, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '2', {more})"
    )
    lake.sql("alter table db.t add constraint positive check (v > 0) on violation reject")
    lake.sql("insert into db.t select id, 3 - id from range(5)")
    lake.write(spark.range(10, 13).selectExpr("id", "11 - id as v"), "db.t")
    spark.range(20, 22).selectExpr("id", "21 - id as v").write.format("lakelog").mode("append").save(
        lake.table("db.t").logical.address
    )
    assert sorted(tuple(row) for row in lake.sql("select * from db.t").collect()) == [
        (0, 3), (1, 2), (2, 1), (10, 1), (20, 1),
    ]  # fmt: skip
    texts = sorted(row.text for row in lake.sql("select text from db.t$rejected").collect())
    assert texts == ["id=11, v=0", "id=12, v=-1", "id=21, v=0", "id=3, v=0", "id=4, v=-1"]
    for text in ("update db.t set v = -v where id = 1", "insert overwrite db.t select id, -id from range(1, 3)"):
        with pytest.raises(Exception, match="positive"):
            lake.sql(text)
    lake.sql("alter table db.t drop constraint positive")
    assert lake.sql("call sys.replay_rejected('db.t')").to_arrow().to_pylist() == [
        {"written_rows": 5, "rejected_rows": 0}
    ]
    assert lake.table("db.t").scan().count() == 10
