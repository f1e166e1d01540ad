"""UPDATE, DELETE and MERGE on Spark against the same said in plain Python, for tables of every kind."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.errors import SparkRuntimeException

from lakelog.errors import UnsupportedFeature
from limits import limit

Row = tuple[int, str | None, int | None]
KEYED = ", primary key (id)"
KINDS = {
    "keyed": (KEYED, "", "'bucket' = '2'"),
    "logged": (KEYED, "", "'bucket' = '2', 'log-store.enabled' = 'true', 'log.changelog-mode' = 'all'"),
    "told": (KEYED, "", "'bucket' = '1', 'changelog-producer' = 'input'"),
    "vectors": (KEYED, "", "'bucket' = '1', 'deletion-vectors.enabled' = 'true'"),
    "rows": ("", "", "'bucket' = '-1'"),
    "published": ("", "", "'bucket' = '-1', 'log-store.enabled' = 'true', 'log.content' = 'changes'"),
    "partitioned": ("", "partitioned by (n)", "'bucket' = '-1'"),
    "bucketed": ("", "", "'bucket' = '2', 'bucket-key' = 'id', 'deletion-vectors.enabled' = 'true'"),
}


def content(lake, table: str = "db.t") -> list[Row]:
    rows = lake.sql(f"select id, v, n from {table}").toArrow().to_pylist()
    return sorted((tuple(r.values()) for r in rows), key=repr)


def values(rows: list[Row]) -> str:
    def text(value: object) -> str:
        if isinstance(value, str):
            return "'" + value.replace("'", "\\'") + "'"
        return "null" if value is None else str(value)

    return ", ".join(f"({', '.join(text(v) for v in row)})" for row in rows)


def counts(updated: int = 0, deleted: int = 0, inserted: int = 0) -> list[dict[str, int]]:
    """The result of a statement that has changed so many rows."""
    return [
        {
            "num_affected_rows": updated + deleted + inserted,
            "num_updated_rows": updated,
            "num_deleted_rows": deleted,
            "num_inserted_rows": inserted,
        }
    ]


class Plain:
    """The table as a list of rows, changed as the statements say, and the counts of the last one."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.counts = counts(inserted=len(rows))

    def update(self, low: int) -> str:
        self.counts = counts(updated=sum(n is not None and n >= low for _, _, n in self.rows))
        self.rows = [(i, f"{v or '-'}u", n) if n is not None and n >= low else (i, v, n) for i, v, n in self.rows]
        return f"update db.t set v = concat(coalesce(v, '-'), 'u') where n >= {low}"

    def delete(self, rest: int) -> str:
        before = len(self.rows)
        self.rows = [r for r in self.rows if r[0] % 5 != rest]
        self.counts = counts(deleted=before - len(self.rows))
        return f"delete from db.t x where x.id % 5 = {rest}"

    def merge(self, source: list[Row], dice: random.Random) -> str:
        found = {row[0]: row for row in source}
        has, adds, leaves = (dice.random() < 0.7 for _ in range(3))
        out: list[Row] = []
        updated = deleted = 0
        for i, v, n in self.rows:
            other = found.get(i)
            if other is not None and has:
                if other[1] != "gone":
                    out.append((i, other[1], n))
                    updated += 1
                else:
                    deleted += 1
            elif other is None and leaves and (n or 0) > 3:
                out.append((i, "left", n))
                updated += 1
            else:
                out.append((i, v, n))
        held = {row[0] for row in self.rows}
        new = [row for row in source if row[0] not in held and row[1] != "gone"] if adds else []
        self.rows = out + new
        self.counts = counts(updated, deleted, len(new))
        clauses = "when matched and s.v = 'gone' then delete when matched then update set v = s.v " if has else ""
        clauses += "when not matched and v <> 'gone' then insert * " if adds else ""
        clauses += "when not matched by source and coalesce(n, 0) > 3 then update set v = 'left'" if leaves else ""
        clauses = clauses or "when not matched and false then insert (id) values (id)"
        return f"merge into db.t using (values {values(source)}) as s(id, v, n) on t.id = s.id {clauses}"


@pytest.mark.parametrize(("kind", "natively"), [*((kind, True) for kind in KINDS), ("keyed", False), ("rows", False)])
def test_rows_change_as_the_statements_say(lake, monkeypatch, kind, natively) -> None:
    if natively:  # also tables of few rows
        limit(monkeypatch, native_rows=-1)
    dice = random.Random(f"{kind} {natively}")
    key, partitions, options = KINDS[kind]
    lake.sql(f"create table db.t (id int, v string, n int{key}) using lakelog {partitions} tblproperties ({options})")
    plain = Plain([(i, dice.choice(["a", "b", "it's"]), dice.choice([None, 0, 3, 7])) for i in range(12)])
    done = lake.sql(f"insert into db.t values {values(plain.rows)}")
    assert done.to_arrow().to_pylist() == plain.counts
    for step in range(6):
        kind_of_step = dice.choice(["update", "delete", "merge", "merge"])
        if kind_of_step == "update":
            text = plain.update(dice.choice([0, 3, 5]))
        elif kind_of_step == "delete":
            text = plain.delete(dice.randrange(5))
        else:
            ids = dice.sample(range(20), 5)
            text = plain.merge([(i, dice.choice(["m", "gone"]), step) for i in ids], dice)
        assert lake.sql(text).to_arrow().to_pylist() == plain.counts, text
        assert content(lake) == sorted(plain.rows, key=repr), text
    if kind == "logged":
        net: Counter[Row] = Counter()
        for batch in lake.table("db.t").tail("earliest", stop="latest"):
            for row in batch.to_pylist():
                net[row["id"], row["v"], row["n"]] += 1 if row["_row_kind"] in ("+I", "+U") else -1
        assert sorted(net.elements(), key=repr) == content(lake) and min(net.values(), default=0) >= 0


@pytest.mark.parametrize("key", ["", KEYED])
def test_two_rows_of_the_source_for_one_of_the_target_change_nothing(lake, key) -> None:
    lake.sql(
        f"create table db.t (id int, v string, n int{key}) using lakelog "
        "tblproperties ('bucket-key' = 'id', 'bucket' = '2')"
    )
    lake.sql("insert into db.t values (1, 'a', 1), (2, 'b', 2)")
    before = lake.table("db.t").latest_snapshot().id
    twice = "merge into db.t using (values (1, 'x'), (1, 'y')) as s(id, v) on t.id = s.id when matched"
    with pytest.raises(SparkRuntimeException, match="several source rows match one row"):
        lake.sql(f"{twice} then update set v = s.v")
    assert lake.table("db.t").latest_snapshot().id == before
    lake.sql(f"{twice} and s.v = 'y' then update set v = s.v")
    assert content(lake) == [(1, "y", 1), (2, "b", 2)], "only one of them changes it"
    lake.sql(f"{twice} then delete")
    assert content(lake) == [(2, "b", 2)]


def test_a_key_stays_and_engines_that_add_up_are_refused(lake) -> None:
    lake.sql("create table db.t (id int, v string, n int, primary key (id)) using lakelog")
    lake.sql("insert into db.t values (1, 'a', 1)")
    lake.sql("update db.t set id = 1, v = 'b'")
    with pytest.raises(SparkRuntimeException, match="change the primary key column 'id': delete the row"):
        lake.sql("update db.t set id = id + 1")
    assert content(lake) == [(1, "b", 1)]
    lake.sql("create table db.s (id int, n bigint, primary key (id)) using lakelog tblproperties "
             "('merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum')")  # fmt: skip
    with pytest.raises(UnsupportedFeature, match="its merge engine 'aggregation' "):
        lake.sql("update db.s set n = 1")
    with pytest.raises(UnsupportedFeature, match=r"removes no keys unless .*'aggregation.remove-record-on-delete'"):
        lake.sql("delete from db.s where id = 1")


@pytest.mark.parametrize("key", ["", KEYED])
def test_other_rows_keep_their_values_whatever_the_new_ones_are(lake, key) -> None:
    lake.sql(f"create table db.t (id int, v string, n bigint{key}) using lakelog")
    lake.sql("insert into db.t values (1, '007', 9007199254740993), (2, '007', 9007199254740993)")
    lake.sql("update db.t set n = n / 3, v = id where id = 1")
    assert content(lake) == [(1, "1", 3002399751580330), (2, "007", 9007199254740993)]
    lake.sql(
        "merge into db.t using (values (2, 0.5D)) s(id, n) on t.id = s.id when matched then update set n = s.n "
        "when not matched by source then update set v = 5"
    )
    assert content(lake) == [(1, "5", 3002399751580330), (2, "007", 0)]


@pytest.mark.parametrize("more", ["", ", 'log-store.enabled' = 'true', 'log.changelog-mode' = 'all'"])
def test_a_key_that_is_deleted_and_inserted_is_there(lake, more) -> None:
    lake.sql(
        "create table db.t (id int, v string, n int, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '1'{more})"
    )
    lake.sql("insert into db.t values (1, 'z', 0), (2, 'b', 0), (3, 'c', 0)")
    lake.sql(
        "merge into db.t using (values (1, 'a', 1), (2, 'y', 1), (4, 'n', 1)) s(id, v, n) on t.id = s.id and t.v = s.v "
        "when not matched then insert * when not matched by source then delete"
    )
    assert content(lake) == [(1, "a", 1), (2, "y", 1), (4, "n", 1)]


def test_a_default_does_not_stand_for_old_nulls_and_older_rows_are_refused(lake) -> None:
    lake.sql("create table db.t (id int, v string, n int) using lakelog")
    lake.sql("insert into db.t values (1, null, 0), (2, null, 0)")
    lake.sql("alter table db.t alter column v set default 'x'")
    lake.sql("update db.t set n = 1 where id = 1")
    assert content(lake) == [(1, None, 1), (2, None, 0)]
    lake.sql("create table db.s (id int, v string, n int, primary key (id)) using lakelog "
             "tblproperties ('sequence.field' = 'n')")  # fmt: skip
    lake.sql("insert into db.s values (1, 'a', 10)")
    lake.sql("update db.s set n = 11")
    with pytest.raises(SparkRuntimeException, match="set 'n', which orders the rows of a key, to an older value"):
        lake.sql("update db.s set n = 5")
    assert content(lake, "db.s") == [(1, "a", 11)]


def test_only_files_with_such_rows_are_written_again(lake, monkeypatch) -> None:
    limit(monkeypatch, native_rows=-1)
    lake.sql("create table db.t (id int, v string, n int) using lakelog tblproperties ('write-only' = 'true')")
    for start in (0, 100, 200):
        lake.sql(f"insert into db.t select id, 'a', 0 from range({start}, {start + 100}, 1, 1)")

    def names() -> set[str]:
        return set(lake.sql("select file_path from db.t$files").toArrow().column(0).to_pylist())

    before = names()
    lake.sql("update db.t set v = concat(v, id) where v = 'a' and (id = 150 or id = 151)")
    assert len(before - names()) == 1 == len(names() - before)
    assert lake.sql("select count(*), count(distinct v), min(id), max(id) from db.t").first() == (300, 3, 0, 299)
    after = names()
    lake.sql("delete from db.t where v = 'nowhere'")
    assert names() == after


def test_a_source_that_is_another_one_each_time_is_read_once(lake, monkeypatch) -> None:
    """Each id has a row in two files: both change, or none, and both to the same value."""
    limit(monkeypatch, native_rows=-1)
    lake.sql("create table db.t (id int, v double) using lakelog tblproperties ('write-only' = 'true')")
    for number in range(8):
        lake.sql(f"insert into db.t values ({number}, 0), ({(number + 1) % 8}, 0)")
    chosen = "(select id, 1 + rand() v from range(8) where rand() < 0.4) s"
    for _ in range(3):
        lake.sql(f"merge into db.t using {chosen} on t.id = s.id when matched then update set v = s.v")
        differ = lake.sql("select id from db.t group by id having count(distinct v) > 1 or count(*) <> 2").collect()
        assert differ == []
    assert lake.sql("select count(*) from db.t where v > 1").first()[0] > 0
