"""A stream that fills the files alone until its event time comes close to now, then both stores."""

from __future__ import annotations

import json
import os
import time

CREATE = """create table db.t (id bigint, at timestamp, primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '200 ms',
'emit.auto-write-to-logstore.watermark-gap' = '1 h', 'watermark.column' = 'at', 'watermark.delay' = '1 s')"""


def put(directory, name: str, ids: range, hours_ago: float) -> None:
    os.makedirs(directory, exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours_ago * 3600))
    path = f"{directory}/{name}"
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        file.write("\n".join(json.dumps({"id": i, "at": at}) for i in ids))
    os.rename(f"{path}.part", f"{path}.json")


def test_a_backfill_leaves_the_log_to_live_rows(lake, spark, tmp_path) -> None:
    lake.sql(CREATE)
    directory = tmp_path / "in"

    def run(name: str, ids: range, hours_ago: float) -> None:
        put(directory, name, ids, hours_ago)
        rows = (
            spark.readStream.schema("id bigint, at timestamp").option("pathGlobFilter", "*.json").json(str(directory))
        )
        query = lake.write_stream(rows, "db.t", str(tmp_path / "cp"))
        query.processAllAvailable()
        query.stop()

    def logged() -> list[int]:
        return sorted(i for b in lake.table("db.t").tail("earliest", stop="latest") for i in b["id"].to_pylist())

    def stored(**options: str) -> list[int]:
        return sorted(lake.table("db.t").scan(options=options).to_arrow()["id"].to_pylist())

    def full() -> list[int]:
        return sorted(i for b in lake.table("db.t").tail("latest-full", stop="latest") for i in b["id"].to_pylist())

    run("1", range(100), 72)
    run("2", range(100, 200), 2)
    assert logged() == [] and stored() == list(range(200))
    run("3", range(200, 210), 0)
    run("4", range(205, 220), 0)
    run("5", range(3), 72)
    assert logged() == [0, 1, 2, *range(205, 220)], "from the epoch after the one that was close to now"
    assert stored() == stored(**{"read.mode": "union"}) == list(range(220))
    assert set(full()) == set(range(220)), "rows of an epoch that is not sealed yet come as changes of what is there"
    lake.table("db.t").seal()
    assert full() == list(range(220))
    found = lake.sql("select max(watermark) as w from db.t$snapshots").collect()[0].w
    assert time.time() * 1000 - 600_000 < found < time.time() * 1000
    first = lake.sql(f"select count(*) as n from db.t /*+ OPTIONS('scan.watermark'='{found}') */").collect()[0].n
    assert first >= 210
