"""A log of changes on Spark: streams in, statements, and a stream out that ends with the rows of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Row

from lakelog import Lake

TOTALS = """create table db.totals (id int, n bigint, primary key (id)) using lakelog tblproperties
    ('log-store.enabled' = 'true', 'bucket' = '2', 'merge-engine' = 'aggregation',
     'fields.n.aggregate-function' = 'sum', 'commit.interval' = '100 ms')"""


def net_changes(
    lake: Lake, checkpoint: Path, before: Mapping[tuple[int, int], int] | None = None, **options: str
) -> Counter[tuple[int, int]]:
    """The rows ``before`` with the changes of a stream that reads the table to its end."""
    net = Counter(before or {})

    def take(frame, _: int) -> None:
        rows: list[Row] = frame.collect()
        net.update((r.id, r.n) for r in rows if r["_row_kind"] in ("+I", "+U"))
        net.subtract((r.id, r.n) for r in rows if r["_row_kind"] in ("-U", "-D"))

    frame = lake.read_stream("db.totals", options={"read.mode": "log", "scan.startup.mode": "latest-full", **options})
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    assert min(net.values()) >= 0
    return +net


def rows(lake: Lake) -> Counter[tuple[int, int]]:
    return Counter((r["id"], r["n"]) for r in lake.sql("select id, n from db.totals").toArrow().to_pylist())


def test_a_stream_into_a_table_of_totals_publishes_changes_of_the_totals(lake, tmp_path) -> None:
    lake.sql(TOTALS)
    (tmp_path / "in").mkdir()
    source = lake.spark.readStream.schema("id int, n bigint").json(str(tmp_path / "in"))
    net: Counter[tuple[int, int]] = Counter()
    for number in range(3):
        lines = [f'{{"id": {i}, "n": {number + 1}}}' for i in range(number, 4)]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
        query = source.writeStream.format("lakelog").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start("db.totals").awaitTermination()
        lake.table("db.totals").seal()
        net = net_changes(lake, tmp_path / "out", net, **{"log.consistency": "transactional"})
        assert net == rows(lake)
    assert rows(lake) == Counter({(0, 1): 1, (1, 3): 1, (2, 6): 1, (3, 6): 1})
    assert net_changes(lake, tmp_path / "new") == rows(lake)
