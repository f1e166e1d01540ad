"""Tables with a log whose buckets change or are dynamic, in Spark: streams, statements and joins (RFC 18)."""

from __future__ import annotations

import pytest

KINDS = {
    "rescale": "'bucket' = '2'",
    "dynamic": "'bucket' = '-1', 'log-store.partitions' = '3', 'dynamic-bucket.target-row-num' = '5'",
}
UNION = "/*+ OPTIONS('read.mode'='union') */"


def rows(lake, hint: str = "") -> list[tuple]:
    return sorted(tuple(r) for r in lake.sql(f"select id, v from db.t {hint}").collect())


def fold(lake, name: str) -> list[tuple]:
    state = {}
    for row in lake.spark.sql(f"select id, v, _row_kind from {name}").collect():
        state.pop(row["id"], None)
        if row["_row_kind"] in ("+I", "+U"):
            state[row["id"]] = row["v"]
    return sorted(state.items())


@pytest.mark.parametrize("kind", KINDS)
def test_streams_and_statements_go_on_while_the_buckets_change(lake, tmp_path, kind: str) -> None:
    lake.sql(
        f"create table db.t (id bigint, v string, primary key (id)) using lakelog tblproperties ('log-store.enabled' = "
        f"'true', 'commit.interval' = '200 ms', {KINDS[kind]})"
    )
    lake.sql("insert into db.t select id, 'a' from range(40)")
    reads = {}
    for whole in ("true", "false"):
        frame = lake.read_stream(
            "db.t",
            {"read.mode": "log", "scan.startup.mode": "latest-full", "log.consumer.normalize": whole},
        )
        reads[whole] = frame.writeStream.format("memory").queryName(f"read_{whole}").outputMode("append").start()
    source = tmp_path / "source"
    source.mkdir()
    frame = lake.spark.readStream.schema("id bigint, v string").json(str(source))
    writes = lake.write_stream(frame, "db.t", str(tmp_path / "checkpoint"))

    def send(number: int, *ids: int) -> None:
        lines = [f'{{"id": {i}, "v": "stream {number}"}}\n' for i in ids]
        (source / f".{number}").write_text("".join(lines))
        (source / f".{number}").rename(source / f"{number}.json")
        writes.processAllAvailable()

    wanted = dict.fromkeys(range(40), "a")
    send(1, 1, 2, 50)
    wanted |= dict.fromkeys((1, 2, 50), "stream 1")
    if kind == "rescale":
        lake.sql("alter table db.t set tblproperties ('bucket' = '5')")
    send(2, 2, 3)
    wanted |= dict.fromkeys((2, 3), "stream 2")
    if kind == "rescale":
        lake.sql("call sys.rescale('db.t')")
    send(3, 3, 4, 51)
    wanted |= dict.fromkeys((3, 4, 51), "stream 3")
    assert rows(lake, UNION) == sorted(wanted.items()) == rows(lake)
    lake.sql("update db.t set v = 'u' where id in (5, 51)")
    lake.sql("delete from db.t where id = 6")
    lake.sql(
        "merge into db.t as t using (select id, 'm' as v from range(7, 10) union all select 60, 'm') s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    wanted |= dict.fromkeys((5, 51), "u") | dict.fromkeys((7, 8, 9, 60), "m")
    del wanted[6]
    assert rows(lake) == sorted(wanted.items())
    for whole, query in reads.items():
        query.processAllAvailable()
        assert query.exception() is None
        assert fold(lake, f"read_{whole}") == sorted(wanted.items()), whole
        query.stop()
    writes.stop()
    probe = lake.spark.range(0, 70).withColumnRenamed("id", "k")
    joined = lake.lookup_join(probe, "db.t", on={"k": "id"}, columns=["v"]).collect()
    assert sorted((row["k"], row["v"]) for row in joined) == sorted(wanted.items())
    lake.table("db.t").seal()
    assert rows(lake) == sorted(wanted.items())
