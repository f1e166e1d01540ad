"""table_changes(…): what changed between snapshots, as the users of Delta ask for it."""

from __future__ import annotations

import pytest

from lakelog import Lake
from lakelog.errors import NotFound, UnsupportedStatement


@pytest.fixture
def changed(lake: Lake) -> Lake:
    """Snapshot 1 has a and b, 2 changes a, 3 deletes b."""
    lake.sql(
        "create table db.t (id int, name string, primary key (id)) "
        "tblproperties ('changelog-producer' = 'input', 'write-only' = 'true')"
    )
    lake.sql("insert into db.t values (1, 'a'), (2, 'b')")
    lake.sql("insert into db.t values (1, 'A')")
    lake.sql("delete from db.t where id = 2")
    return lake


def told(lake: Lake, text: str) -> list[tuple]:
    return sorted(map(tuple, lake.sql(text).collect()))


def test_both_ends_are_part_of_the_range(changed: Lake) -> None:
    columns = "select _row_kind, id, name from table_changes"
    assert told(changed, f"{columns}('db.t', 2, 2)") == [("+I", 1, "A")]
    assert told(changed, f"{columns}('db.t', 2)") == [("+I", 1, "A"), ("-D", 2, "b")]
    assert told(changed, f"{columns}('db.t', 0, 1)") == [("+I", 1, "a"), ("+I", 2, "b")]
    assert told(changed, f"{columns}('db.t', 4)") == []
    assert len(told(changed, f"{columns}('db.t', '2020-01-01')")) == 4
    assert told(changed, f"{columns}('db.t', '2020-01-01', '2020-01-02')") == []


def test_changes_are_joined_and_counted(changed: Lake) -> None:
    joined = "select c._row_kind, t.name from db.t t join table_changes('db.t', 1, 2) as c on c.id = t.id"
    assert told(changed, joined) == [("+I", "A"), ("+I", "A")]
    counted = "with c as (select * from table_changes('db.t', 1)) select _row_kind, count(*) from c group by 1"
    assert told(changed, counted) == [("+I", 3), ("-D", 1)]


def test_a_range_that_is_not_there_is_refused(changed: Lake) -> None:
    with pytest.raises(UnsupportedStatement, match="table 'db.t' has no snapshot 5 yet; its newest one is 3"):
        changed.sql("select * from table_changes('db.t', 5)")
    with pytest.raises(UnsupportedStatement, match="line 1, column 40: the range ends at 1, .* at 2"):
        changed.sql("select * from table_changes('db.t', 2, 1)")


def test_changes_to_a_tag_begin_at_the_tag_before_it(changed: Lake) -> None:
    call = "select id, name from paimon_incremental_to_auto_tag('db.t', '{}')"
    for tag, snapshot in (("2024-01-01", 1), ("2024-01-02", 3)):
        changed.sql(f"alter table db.t create tag `{tag}` as of version {snapshot}")
    assert told(changed, call.format("2024-01-01")) == []
    assert told(changed, call.format("2024-01-02")) == [(1, "A")]
    with pytest.raises(NotFound, match="2024-01-03"):
        changed.sql(call.format("2024-01-03"))
    with pytest.raises(UnsupportedStatement, match=r"paimon_incremental_to_auto_tag\('db.t', tag\)"):
        changed.sql("select * from paimon_incremental_to_auto_tag('db.t', '1', '2')")
