"""A streaming aggregate over a log of changes keeps a table up to date, with updates and deletes, exactly once."""

from __future__ import annotations

import queue
import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from lakelog import Lake
from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedFeature
from lakelog.spark.engine.streaming_query import show_stream
from lakelog.spark.write.stream_writer import LakelogStreamWriter

pytestmark = pytest.mark.local_only("the driver commits each micro-batch")

LOG = "db.c /*+ OPTIONS('read.mode'='log','scan.startup.mode'='earliest') */"
QUERY = f"select k, count(*) as n, sum(v) as s from {LOG} group by k"
DEFAULT = "'bucket' = '1'"
TARGETS = {
    "files": DEFAULT,
    "upserts": "'log-store.enabled' = 'true', 'commit.interval' = '100 ms'",
    "changes": "'log-store.enabled' = 'true', 'log.content' = 'changes', 'commit.interval' = '100 ms'",
}
Rows = dict[int, tuple[str, int | None]]


class Source:
    """A table with a key and a log, and a dict with the same rows."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self._lake, self._random = lake, random.Random(seed)
        self.rows: Rows = {}
        lake.sql("create database if not exists db")
        lake.sql(
            "create or replace table db.c (id int, k string, v int, primary key (id)) using lakelog "
            "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2')"
        )

    def change(self, count: int = 12) -> None:
        """Writes random inserts, updates, moves to other groups, and deletes; some groups become empty."""
        given = []
        for _ in range(count):
            number = self._random.randrange(10)
            if number in self.rows and self._random.random() < 0.45:
                given.append((number, *self.rows.pop(number), "-D"))
            else:
                self.rows[number] = self._random.choice("abcd"), self._random.choice([None, *range(5)])
                given.append((number, *self.rows[number], "+I"))
        ids, groups, values, kinds = zip(*given, strict=True)
        columns = {"id": pa.array(ids, pa.int32()), "k": list(groups), "v": pa.array(values, pa.int32())}
        self._lake.write(pa.table({**columns, "_row_kind": list(kinds)}), "db.c")

    def totals(self, has: Callable[[int], bool] = lambda _: True) -> dict[str, tuple[int, int | None]]:
        """The groups with rows that ``has`` keeps by their number: count and sum."""
        found: dict[str, tuple[int, int | None]] = {}
        for k, v in self.rows.values():
            n, s = found.get(k, (0, None))
            found[k] = n + 1, s if v is None else v + (s or 0)
        return {k: (n, s) for k, (n, s) in found.items() if has(n)}


def make(lake: Lake, properties: str = "", columns: str = "k string, n bigint, s bigint, primary key (k)") -> None:
    """The table of the groups."""
    lake.sql(f"create or replace table db.agg ({columns}) using lakelog tblproperties ({properties or DEFAULT})")


def in_files(lake: Lake) -> dict[str, tuple[int, int | None]]:
    lake.table("db.agg").seal()
    return {r["k"]: (r["n"], r["s"]) for r in lake.table("db.agg").scan().to_arrow().to_pylist()}


def in_log(lake: Lake) -> dict[str, tuple[int, int | None]]:
    """The rows that a plain consumer of the target's log ends with; of a log of changes they also add up."""
    found: dict[str, tuple[int, int | None]] = {}
    added: Counter[tuple[str, int, int | None]] = Counter()
    for batch in lake.table("db.agg").tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            added[row["k"], row["n"], row["s"]] += 1 if row["_row_kind"][0] == "+" else -1
            if row["_row_kind"] in ("+I", "+U"):
                found[row["k"]] = row["n"], row["s"]
            elif row["_row_kind"] == "-D":
                found.pop(row["k"], None)
    if lake.table("db.agg").logical.publishes:
        assert +added == Counter((k, n, s) for k, (n, s) in found.items()) and min(added.values()) >= 0
    return found


def check(lake: Lake, want: dict[str, tuple[int, int | None]]) -> None:
    assert in_files(lake) == want
    if lake.table("db.agg").log is not None:
        assert in_log(lake) == want


@pytest.mark.parametrize("target", TARGETS)
def test_the_table_is_the_aggregate_of_the_rows_that_are_left(lake, depth, target) -> None:
    for seed in depth.seeds(5):
        source = Source(lake, seed)
        make(lake, TARGETS[target])
        having, has = ("", lambda _: True) if seed % 2 else (" having count(*) <> 2", lambda n: n != 2)
        for _ in range(2):  # the second start resumes from the checkpoint of the first
            source.change()
            query = lake.sql(f"insert into db.agg {QUERY}{having}")
            for _ in range(2):
                query.processAllAvailable()
                check(lake, source.totals(has))
                source.change(5)
            query.processAllAvailable()
            query.stop()
            check(lake, source.totals(has))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_batch_that_dies_around_its_decision_is_written_once(lake, monkeypatch, moment) -> None:
    source, commit, died = Source(lake, 1), LakelogStreamWriter.commit_epoch, []
    make(lake, TARGETS["upserts"])

    def dies(self: LakelogStreamWriter, messages: list, epoch: int) -> None:
        if moment == "after":
            commit(self, messages, epoch)
        if epoch == 1 and not died:
            died.append(sum(message.result.row_count for message in messages))
            raise RuntimeError("the driver dies")
        if moment == "before":
            commit(self, messages, epoch)

    monkeypatch.setattr(LakelogStreamWriter, "commit_epoch", dies)
    source.change()
    query = lake.sql(f"insert into db.agg {QUERY}")
    query.processAllAvailable()
    source.change()
    with pytest.raises(Exception, match="the driver dies"):
        query.processAllAvailable()
    assert died[0] > 0
    source.change()
    again = lake.sql(f"insert into db.agg {QUERY}")
    again.processAllAvailable()
    assert again.id == query.id and again.lastProgress["batchId"] >= 2
    check(lake, source.totals())


def test_a_frame_is_aggregated_by_write_stream_and_its_progress_is_spark_s(lake, tmp_path) -> None:
    source = Source(lake, 2)
    make(lake)
    source.change()
    options = {"read.mode": "log", "scan.startup.mode": "earliest", "log.consumer.normalize": "true"}
    sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    changes = lake.read_stream("db.c", options=options)
    sums = changes.groupBy("k").agg(sf.sum(sign).alias("n"), sf.sum(sf.col("v") * sign).alias("s"))
    frame = sums.withColumn("_row_kind", sf.when(sf.col("n") > 0, "+U").otherwise("-D"))
    query = lake.write_stream(
        frame.withColumn("s", sf.when(sf.col("n") > 0, sf.col("s"))), "db.agg", str(tmp_path / "c")
    )
    query.processAllAvailable()
    assert {k: n for k, (n, _) in in_files(lake).items()} == {k: n for k, (n, _) in source.totals().items()}
    assert query.lastProgress["numInputRows"] >= len(source.rows) and (tmp_path / "c" / "commits").exists()


def test_having_names_an_alias_and_a_division_meets_a_group_without_rows(lake) -> None:
    Source(lake, 0)
    make(lake, columns="k string, v bigint, share double, primary key (k)")
    lake.sql("insert into db.c values (1, 'a', 2), (2, 'b', null), (3, 'c', 1), (4, 'c', null)")
    select = f"select k, sum(v) as v, 100 * count(v) / count(*) as share from {LOG} group by k having v > 0"
    query = lake.sql(f"insert into db.agg {select} and share > 1")
    query.processAllAvailable()
    assert lake.sql("select k, v, share from db.agg order by k").collect() == [("a", 2, 100.0), ("c", 1, 50.0)]
    lake.sql("delete from db.c where id = 1")
    query.processAllAvailable()
    assert lake.sql("select k, v, share from db.agg").collect() == [("c", 1, 50.0)]


def keyless(lake: Lake) -> None:
    make(lake, columns="k string, n bigint, s bigint")


def first_row(lake: Lake) -> None:
    make(lake, "'merge-engine' = 'first-row'")


def ordered(lake: Lake) -> None:
    make(lake, "'sequence.field' = 'n'")


def with_old_rows(lake: Lake) -> None:
    make(lake, "'log-store.enabled' = 'true', 'log.content' = 'input', 'log.changelog-mode' = 'all'")


def not_null(lake: Lake) -> None:
    make(lake, columns="k string, n bigint, s bigint not null, primary key (k)")


def with_default_key(lake: Lake) -> None:
    make(lake, columns="k string default 'a', n bigint, s bigint, primary key (k)")


@pytest.mark.parametrize(
    ("table", "query", "says"),
    [
        (keyless, QUERY, "needs a primary key"),
        (first_row, QUERY, "needs a table whose newest row wins, and 'merge-engine' = 'first-row'"),
        (ordered, QUERY, "does not go with 'sequence.field' = 'n'"),
        (with_old_rows, QUERY, "no old rows for its log with 'log.changelog-mode' = 'all'"),
        (not_null, QUERY, "may have NULL in column 's', which is NOT NULL"),
        (make, f"select k, 1, 2, sum(v) from {LOG} group by k", r"has 4 columns \(k, 1, 2, sum\(v\)\), but"),
        (with_default_key, QUERY, "may have NULL in the key column 'k'"),
        (make, f"select 'x', count(*) as n, sum(v) as s from {LOG} group by k", "also groups by .*k"),
        (make, f"select upper(k), count(*) as n, sum(v) as s from {LOG} group by k", "'k' is not one of the GROUP BY"),
        (make, f"{QUERY} order by k", "must end with the aggregation, and Sort follows it"),
        (make, f"select k, max(v) as n, 1L as s from {LOG} group by k", "would count retractions"),
    ],
)  # fmt: skip
def test_what_a_stream_cannot_keep_up_to_date_is_refused_before_it_starts(lake, table, query, says) -> None:
    Source(lake, 0)
    table(lake)
    with pytest.raises((InvalidRequest, InvalidSchema), match=says):
        lake.sql(f"insert into db.agg {query}")
    assert not lake.spark.streams.active


def test_a_session_without_the_ids_of_its_queries_is_refused(lake, monkeypatch) -> None:
    Source(lake, 0)
    make(lake)
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(UnsupportedFeature, match="start Python without PYSPARK_PIN_THREAD"):
        lake.sql(f"insert into db.agg {QUERY}")


def test_a_frame_that_leaves_groups_out_is_refused(lake) -> None:
    Source(lake, 0)
    make(lake)
    with pytest.raises(InvalidRequest, match="must not filter groups"):
        lake.write_stream(lake.sql(QUERY), "db.agg")


def test_an_aggregate_of_aggregates_is_refused(lake) -> None:
    Source(lake, 0)
    make(lake)
    changes = lake.read_stream("db.c", options={"read.mode": "log"})
    sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    once = changes.groupBy("id", "k").agg(sf.sum(sign).alias("n"))
    twice = once.groupBy("k").agg(sf.sum("n").alias("n"), sf.sum("n").alias("s"))
    with pytest.raises(InvalidRequest, match="leave out what Spark cannot update"):
        lake.write_stream(twice, "db.agg")
    assert not lake.spark.streams.active


VIEWS = {
    "temporary view": "create temporary view seen as select * from {log}",
    "global view": "create global temporary view seen as select id, v, k from {log}",
    "view of a view": "create temporary view one as select * from {log}; create temporary view seen as table one",
    "view with a kind": "create temporary view seen as select id, k, v, _row_kind from {log}",
    "view of an aggregate": "create temporary view one as select * from {log}; "
    "create temporary view seen as select id, sum(v) as v, 1 as k from one group by id",
}
COUNTS = (
    "select count(*) from {}",
    "select distinct k from {}",
    "select k, max(v) from {} group by k",
    "with c as (select id from {}) select sum(id) from c",
    "select count(*) from (select * from {} where v > 1)",
)


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_of_changes_counts_retractions_as_rows(lake, view) -> None:
    Source(lake, 0).change()
    make(lake)
    lake.sql(VIEWS[view].format(log=LOG))
    name = "global_temp.seen" if view == "global view" else "seen"
    try:
        for count in COUNTS:
            with pytest.raises(UnsupportedFeature, match="over the changes of table db.c would count retractions"):
                lake.sql(count.format(name))
        with pytest.raises(UnsupportedFeature, match="would count retractions"):
            lake.sql(f"insert into db.agg select k, count(*), sum(v) from {name} group by k")
        if view != "view of an aggregate":
            assert lake.sql(f"select id from {name} where v > 1").isStreaming
    finally:
        lake.sql("drop view if exists seen; drop view if exists one; drop view if exists global_temp.seen")


def test_frames_of_changes_are_refused_where_they_count_retractions(lake) -> None:
    Source(lake, 0).change()
    make(lake)
    for options in ({"read.mode": "log"}, {}):
        changes = lake.read_stream("db.c", options=options)
        changes.createOrReplaceTempView("seen")
        with pytest.raises(UnsupportedFeature, match="would count retractions"):
            lake.sql("select count(*) from seen")
        with pytest.raises(UnsupportedFeature, match="would count retractions"):
            lake.write_stream(changes.groupBy("k").agg(sf.count("*").alias("n")), "db.agg")
        signed = "select sum(case when _row_kind in ('+I', '+U') then v else -v end) from seen"
        assert lake.sql(signed).isStreaming
    inserts = {"read.mode": "log", "log.consumer.changelog.modes": "append-only"}
    lake.read_stream("db.c", options=inserts).createOrReplaceTempView("seen")
    assert lake.sql("select count(*) from seen").isStreaming
    lake.sql("create temporary view made as select count(*) n, sum(v) s from " + LOG)
    assert lake.sql("select * from made").isStreaming
    lake.sql("drop view seen; drop view made")


def test_a_streaming_aggregate_is_shown(lake: Lake) -> None:
    lake.sql(
        "create database db; create table db.t (k string) using lakelog tblproperties ('log-store.enabled' = 'true')"
    )
    lake.sql("insert into db.t values ('a'), ('a'), ('b')")
    frame = lake.sql(
        "select k, count(*) n from db.t /*+ OPTIONS('read.mode'='log','scan.startup.mode'='earliest') */ group by k"
    )
    shown: queue.Queue[pa.Table] = queue.Queue()
    query = show_stream(frame, 10, shown.put)
    try:
        assert sorted(map(tuple, (row.values() for row in shown.get(timeout=120).to_pylist()))) == [("a", 2), ("b", 1)]
    finally:
        query.stop()
