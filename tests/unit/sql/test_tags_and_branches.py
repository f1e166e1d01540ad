"""ALTER TABLE about tags and branches, SHOW TAGS, and what DESCRIBE DETAIL tells."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, UnsupportedStatement


@pytest.fixture
def lake(tmp_path):
    made = lakelog.connect(warehouse=str(tmp_path))
    made.sql("create table db.t (day string, id int, primary key (day, id)) partitioned by (day) comment 'of days'")
    for number in range(3):
        made.table("db.t").write(pa.table({"day": ["a", "b"], "id": pa.array([number, number], pa.int32())}))
    return made


def tags(lake) -> dict[str, int]:
    assert lake.sql("show tags db.t").column("tag").to_pylist() == sorted(t.name for t in lake.table("db.t").tags())
    return {t.name: t.snapshot.id for t in lake.table("db.t").tags()}


def test_tags_come_change_and_go(lake) -> None:
    lake.sql("alter table db.t create tag two as of version 2 retain 30 days; alter table db.t create tag `new`")
    assert tags(lake) == {"two": 2, "new": 3}
    assert next(t for t in lake.table("db.t").tags() if t.name == "two").retained.days == 30
    with pytest.raises(AlreadyExists):
        lake.sql("alter table db.t create tag two")
    lake.sql("alter table db.t create tag if not exists two")
    lake.sql(
        "alter table db.t create or replace tag two as of version 1; alter table db.t replace tag new as of version 2"
    )
    lake.sql("alter table db.t create or replace tag other as of version 1")
    assert tags(lake) == {"two": 1, "new": 2, "other": 1}
    lake.sql("alter table db.t rename tag two to one; alter table db.t drop tag new; alter table db.t delete tag other")
    assert tags(lake) == {"one": 1}
    lake.sql("alter table db.t drop tag if exists gone")
    for verb in ("drop", "replace"):
        with pytest.raises(NotFound):
            lake.sql(f"alter table db.t {verb} tag gone")
    with pytest.raises(UnsupportedStatement, match="DAYS, HOURS or MINUTES"):
        lake.sql("alter table db.t create tag x retain 3 weeks")


def test_the_procedures_about_tags(lake) -> None:
    lake.sql("call sys.create_tag('db.t', 'one', 1); call sys.rename_tag('db.t', 'one', 'first')")
    lake.sql("call sys.replace_tag('db.t', 'first', snapshot => 2)")
    assert tags(lake) == {"first": 2}


def test_branches_begin_with_the_newest_snapshot_or_another(lake) -> None:
    lake.sql("alter table db.t create tag one as of version 1")
    lake.sql("alter table db.t create branch b; alter table db.t create branch c as of version 2")
    lake.sql("alter table db.t create branch d as of version 'one'; alter table db.t create branch if not exists d")
    branches = lake.table("db.t").branches()
    assert sorted(branches) == ["b", "c", "d"]
    found = {name: lake.table(f"db.t$branch_{name}").latest_snapshot().id for name in branches}
    assert found == {"b": 3, "c": 2, "d": 1}
    lake.sql("alter table db.t drop branch b; alter table db.t drop branch if exists b")
    assert sorted(lake.table("db.t").branches()) == ["c", "d"]
    with pytest.raises(UnsupportedStatement, match="kept until it is dropped"):
        lake.sql("alter table db.t create branch e retain 3 days")
    with pytest.raises(InvalidRequest, match="fast_forward"):
        lake.sql("alter table db.t replace branch c")


def test_detail_is_of_the_newest_snapshot(lake) -> None:
    lake.sql("create table db.empty (id int)")
    assert lake.sql("describe detail db.empty").to_pylist()[0]["numFiles"] == 0
    (told,) = lake.sql("desc detail db.t").to_pylist()
    assert (told["name"], told["description"]) == ("db.t", "of days")
    assert (told["primaryKeys"], told["partitionColumns"], told["numFiles"]) == (["day", "id"], ["day"], 6)
    assert told["sizeInBytes"] > 0 and told["location"].endswith("/t")
    assert told["lastModified"].timestamp() * 1000 == lake.table("db.t").latest_snapshot().time_millis
