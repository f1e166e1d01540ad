"""Every statement that replaces rows of a table without a key, beside a log of input rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keyless_tables import LOGS, OLD, Rows, check, make, write
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

STATEMENTS: dict[str, tuple[Callable[[Lake, Table], object], Rows]] = {
    "delete": (lambda lake, table: lake.sql("delete from db.t where id = 1"), OLD[2:]),
    "update": (
        lambda lake, table: lake.sql("update db.t set id = id + 10 where id < 3"),
        [(11, "a"), (11, "a"), (12, "a"), *OLD[3:]],
    ),
    "update of a partition": (
        lambda lake, table: lake.sql("update db.t set p = 'c' where id = 1"),
        [(1, "c"), (1, "c"), *OLD[2:]],
    ),
    "delete of a partition": (lambda lake, table: lake.sql("delete from db.t where p = 'a'"), OLD[3:]),
    "delete of all": (lambda lake, table: lake.sql("delete from db.t"), []),
    "merge": (
        lambda lake, table: lake.sql(
            "merge into db.t t using (values (2, 'a'), (9, 'c')) s (id, p) on t.id = s.id "
            "when matched then delete when not matched then insert (id, p) values (s.id, s.p)"
        ),
        [*OLD[:2], *OLD[3:], (9, "c")],
    ),
    "overwrite of a partition": (
        lambda lake, table: lake.sql("insert overwrite db.t partition (p = 'a') values (2), (5)"),
        [(2, "a"), (5, "a"), *OLD[3:]],
    ),
    "overwrite with nothing": (
        lambda lake, table: lake.sql("insert overwrite db.t partition (p = 'a') select id from db.t where id > 99"),
        OLD[3:],
    ),
    "dynamic overwrite": (
        lambda lake, table: write(table, [(1, "a"), (7, "c")], overwrite=True),
        [(1, "a"), *OLD[3:], (7, "c")],
    ),
    "replace where": (
        lambda lake, table: lake.sql("insert into db.t replace where p = 'a' select 9, 'a'"),
        [(9, "a"), *OLD[3:]],
    ),
    "truncate": (lambda lake, table: lake.sql("truncate table db.t"), []),
    "drop of a partition": (lambda lake, table: lake.sql("alter table db.t drop partition (p = 'b')"), OLD[:3]),
}


@pytest.mark.parametrize("log", LOGS)
def test_every_statement_changes_both_stores(tmp_path: Path, log: str) -> None:
    for number, (act, after) in enumerate(STATEMENTS.values()):
        lake, table = make(tmp_path / str(number), log)
        act(lake, table)
        check(table, after)
        write(table, [(99, "z")])
        check(table, [*after, (99, "z")])
