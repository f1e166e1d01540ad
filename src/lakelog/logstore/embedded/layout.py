"""Layout of an embedded log's file, its versions, and its statements (RFC 12).

Layout 2 (SQLite): ``meta(key, value)`` holds log id, machine, buckets and layout; ``ends(bucket, next, trimmed)`` the
next offset and the first retained one; ``batches(bucket, first, count, ts, data)`` a record batch with the offset of
its first record and its time in ms. Layout 1 had ``records``, a row per record; an upgraded file still holds those rows
as ``records_1``, all of them before the batches. The view has no content. lakelog 0.1
refuses any view, and its name is the advice in that error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from lakelog.errors import Corrupt, UnsupportedFeature

_LAYOUT: Final = 2
_VIEW: Final = "layout 2: upgrade lakelog"
_BATCHES: Final = f"""
create table batches (id integer primary key, bucket integer not null, first integer not null, count integer not null,
    ts integer not null, data blob not null);
create unique index batch_of_offset on batches (bucket, first, count, ts);
create view "{_VIEW}" as select {_LAYOUT} as layout;
insert into meta values ('layout', '{_LAYOUT}');
"""
_TABLES: Final = """
create table meta (key text primary key, value text not null) without rowid;
create table ends (bucket integer primary key, next integer not null, trimmed integer not null);
"""


def create_tables(database: sqlite3.Connection, meta: Mapping[str, str], buckets: int) -> None:
    """Makes the tables of an empty log."""
    database.executescript(_TABLES + _BATCHES)
    database.executemany("insert into meta values (?, ?)", meta.items())
    database.executemany("insert into ends values (?, 0, 0)", [(bucket,) for bucket in range(buckets)])
    database.commit()


def check_layout(database: sqlite3.Connection, address: str) -> bool:
    """Upgrades a file of layout 1; returns whether it still has rows of that layout.

    One transaction renames the table of the rows and makes that of the batches. A process of lakelog 0.1 that has the
    file open gets an error from then on, and loses nothing. Raises Corrupt, UnsupportedFeature for a later layout.
    """
    layout = _layout_of(database, address)
    if layout == 1:
        database.execute("begin immediate")
        try:
            if _layout_of(database, address) == 1:
                database.execute("alter table records rename to records_1")
                for statement in _BATCHES.split(";\n")[:-1]:
                    database.execute(statement)
            database.execute("commit")
        except BaseException:
            if database.in_transaction:
                database.execute("rollback")
            raise
    named = "select 1 from sqlite_schema where type = 'table' and name = 'records_1'"
    return database.execute(named).fetchone() is not None


def _layout_of(database: sqlite3.Connection, address: str) -> int:
    # a view may be an endless query, and a trigger writes what nobody sees
    views = database.execute("select name from sqlite_schema where type in ('view', 'trigger')").fetchall()
    if odd := [name for (name,) in views if name != _VIEW]:
        raise Corrupt(f"the embedded log {address} is not used: it has {odd[0]!r}, which does not belong to a log")
    found = database.execute("select value from meta where key = 'layout'").fetchone()
    layout = 1 if found is None else int(found[0])
    if layout > _LAYOUT:
        raise UnsupportedFeature(
            f"the embedded log {address} has layout {layout}, and this lakelog knows {_LAYOUT}: upgrade lakelog"
        )
    return layout


def trim(database: sqlite3.Connection, has_rows: bool, before_ms: int, floors: Mapping[int, int] | None = None) -> None:
    """Deletes batches older than a time, in a transaction of the caller; with ``floors`` (bucket → offset), only those
    that end before them. The newest batch of a bucket stays."""
    tables = [("batches", "first", "first + count")]
    if has_rows:
        tables.insert(0, ("records_1", '"offset"', '"offset" + 1'))
    for bucket, end, trimmed in database.execute("select bucket, next, trimmed from ends").fetchall():
        floor = end if floors is None else floors.get(bucket, 0)
        for table, first, behind in tables:
            kept = database.execute(
                f"select {first} from {table} where bucket = ? and (ts >= ? or {behind} > ?) order by {first} limit 1",
                (bucket, before_ms, floor),
            ).fetchone()
            if kept is not None:
                break
        if kept is not None and kept[0] > trimmed:
            for table, first, _ in tables:
                database.execute(f"delete from {table} where bucket = ? and {first} < ?", (bucket, kept[0]))
            database.execute("update ends set trimmed = ? where bucket = ?", (kept[0], bucket))
