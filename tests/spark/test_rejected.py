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
