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
    row = database.execute("select value from meta where key = 'layout'").fetchone()
    layout = 1 if row is None else int(row[0])
    if layout > _LAYOUT:
        raise UnsupportedFeature(
            f"the embedded log {address} has layout {layout}, and this lakelog knows {_LAYOUT}: upgrade lakelog"
        )
    return layout


def trim(database: sqlite3.Connection, has_rows: bool, before_ms: int, floors: Mapping[int, int] | None = None) -> None:
    """Deletes batches older than a time, in a transaction of the caller; with ``floors`` (bucket → offset), only those
    that end before them. The newest batch of a bucket stays."""
    tables = _tables(has_rows)
    for bucket, kept in trimmed_to(database, has_rows, before_ms, floors).items():
        for table, first, _ in tables:
            database.execute(f"delete from {table} where bucket = ? and {first} < ?", (bucket, kept))
        database.execute("update ends set trimmed = ? where bucket = ?", (kept, bucket))


def date_future(database: sqlite3.Connection, now_ms: int) -> None:
    """Gives batches of the future, which a disk with a wrong clock dated, the present time; as ``trim``."""
    if newest_ms(database) > now_ms:
        database.execute("update batches set ts = ? where ts > ?", (now_ms, now_ms))


def newest_ms(database: sqlite3.Connection) -> int:
    """The time of the newest batch; 0 without one."""
    row = database.execute("select ts from batches order by id desc limit 1").fetchone()
    return 0 if row is None else int(row[0])


def _tables(has_rows: bool) -> list[tuple[str, str, str]]:
    """The tables of the records in the order of their offsets: name, first offset, offset after the last one."""
    batches = ("batches", "first", "first + count")
    return [("records_1", '"offset"', '"offset" + 1'), batches] if has_rows else [batches]


def trimmed_to(
    database: sqlite3.Connection, has_rows: bool, before_ms: int, floors: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Bucket → its first offset after ``trim``, for the buckets that it would change."""
    out, tables = {}, _tables(has_rows)
    for bucket, end, trimmed in database.execute("select bucket, next, trimmed from ends").fetchall():
        floor = end if floors is None else floors.get(bucket, 0)
        for table, first, behind in tables:
            kept = database.execute(
                f"select {first} from {table} where bucket = ? and (ts >= ? or {behind} > ?) order by {first} limit 1",
                (bucket, before_ms, floor),
            ).fetchone()
            if kept is not None:
                break
        newest = (_newest(database, bucket, table, first) for table, first, _ in reversed(tables))
        kept = kept or next((row for row in newest if row is not None), None)
        if kept is not None and kept[0] > trimmed:
            out[bucket] = kept[0]
    return out


def _newest(database: sqlite3.Connection, bucket: int, table: str, first: str) -> tuple[int] | None:
    row: tuple[int] | None = database.execute(
        f"select {first} from {table} where bucket = ? order by {first} desc limit 1", (bucket,)
    ).fetchone()
    return row
