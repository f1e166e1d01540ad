"""A database of the tests' PostgreSQL that is ingested: random transactions, and its tables compared with lakelog's."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
import pyarrow as pa
from psycopg import sql

from lakelog import Lake
from servers.postgres_server import PostgresServer

LARGE = 6_000


class SourceDatabase:
    """One database of its own on a server."""

    def __init__(self, server: PostgresServer, name: str = "") -> None:
        self.server, self.name = server, name or f"db_{uuid.uuid4().hex[:12]}"
        if not name:
            server.run(f"create database {self.name}")

    @property
    def url(self) -> str:
        """The address with the password."""
        return f"postgres://{self.server.user}:{self.server.password}@127.0.0.1:{self.server.port}/{self.name}"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection in autocommit."""
        return psycopg.connect(self.url, autocommit=True)

    def run(self, *statements: str) -> None:
        """Runs statements, each in a transaction of its own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def slots(self) -> list[str]:
        """The slots of this database."""
        with self.connect() as connection:
            found = connection.execute("select slot_name from pg_replication_slots where database = %s", (self.name,))
            return [name for (name,) in found.fetchall()]

    def drop_slots(self) -> None:
        """Drops all slots that nobody reads, so that the server may forget its WAL."""
        with self.connect() as connection:
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                "where database = %s and not active",
                (self.name,),
            )


def ingested(
    lake: Lake, database: SourceDatabase, *tables: str, options: Mapping[str, str] | None = None, **how: Any
) -> int:
    """Ingests up to the current end; returns the number of rows."""
    made = lake.ingest(database.url, tables, "db", options=options or {})
    return sum(p.rows for p in made.run(once=True, **how) if p.phase == "stream" or p.is_last)


def _form(schema: pa.Schema, name: str) -> LiteralString:
    """The expression that reads a column of the source as lakelog has it."""
    kind = schema.field(name).type if name in schema.names else pa.null()
    if kind == pa.string():
        return "case when {0} is null then null else format('%s', {0}) end"
    return "{0}::text[]" if pa.types.is_list(kind) and kind.value_type == pa.string() else "{0}"


def rows_of_source(database: SourceDatabase, table: str, schema: pa.Schema) -> Counter[str]:
    """The rows of a table of the source, by its own columns; what is text in lakelog is read as PostgreSQL's text."""
    with database.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        names = [
            name
            for (name,) in connection.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped "
                "and attgenerated = '' order by attname",
                (table,),
            ).fetchall()
        ]
        columns = sql.SQL(", ").join(sql.SQL(_form(schema, name)).format(sql.Identifier(name)) for name in names)
        rows = connection.execute(sql.SQL("select {} from {}").format(columns, sql.Identifier(table))).fetchall()
    return Counter(repr(dict(zip(names, map(_plain, row), strict=True))) for row in rows)


def differences(lake: Lake, database: SourceDatabase, table: str, into: str = "db") -> list[str]:
    """The rows that only one side has; lakelog's columns that the source has dropped are left out."""
    found = lake.table(f"{into}.{table}").scan().to_arrow()
    wanted = rows_of_source(database, table, found.schema)
    with database.connect() as connection:
        names = sorted(
            name
            for (name,) in connection.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped "
                "and attgenerated = ''",
                (table,),
            ).fetchall()
        )
    here = [dict.fromkeys(names) | {n: _plain(row[n]) for n in names if n in row} for row in found.to_pylist()]
    have = Counter(repr(row) for row in here)
    missing = [f"missing ×{n}: {row[:4000]}" for row, n in (wanted - have).items()]
    return missing + [f"too many ×{n}: {row[:4000]}" for row, n in (have - wanted).items()]


def _plain(value: Any) -> Any:
    """A value with one text of its zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


TABLES = (
    "create table orders (id int primary key, customer text, price numeric(10, 2), note text, tags text[], "
    "changed timestamptz, detail jsonb)",
    "create table items (order_id int, line int, amount bigint, label text, primary key (line, order_id))",
    "create table events (at bigint, what text)",
    "alter table events replica identity full",
)
"""Tables of random transactions: keys of one and of two columns, and none."""
NAMES = ("orders", "items", "events")


class RandomLoad:
    """Random transactions on ``TABLES``: inserts, updates, deletes, changed keys, rollbacks, large values.

    ``alters`` is the share of them before which a table is altered or truncated.
    """

    def __init__(self, seed: int, alters: float = 0.02) -> None:
        self.rng, self.alters = random.Random(seed), alters
        self.next_id, self.columns = 1, 0

    def transaction(self, connection: psycopg.Connection[Any]) -> None:
        """One transaction; a tenth of them are rolled back."""
        rng = self.rng
        if rng.random() < self.alters:
            self._alter(connection)
        try:
            with connection.transaction():
                for _ in range(rng.choice([1, 1, 2, 5, 20])):
                    self._change(connection)
                if rng.random() < 0.1:
                    raise psycopg.Rollback
        except psycopg.errors.UniqueViolation:
            return

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        rng, some = self.rng, self.rng.randrange(max(1, self.next_id)) + 1
        large = "".join(rng.choices("abcdef0123456789", k=LARGE)) if rng.random() < 0.1 else None
        what = rng.random()
        if what < 0.35:
            connection.execute(
                "insert into orders (id, customer, price, note, tags, changed, detail) values "
                "(%s, %s, %s, %s, %s, now(), %s)",
                (self.next_id, f"c{some}", some / 7, large or "", [f"t{some}", None, 'a,"b'], '{"a": [1, null]}'),
            )
            connection.execute("insert into items values (%s, 1, %s, %s)", (self.next_id, some, large or None))
            self.next_id += 1
        elif what < 0.6:
            connection.execute("update orders set price = price + 1, changed = now() where id = %s", (some,))
        elif what < 0.7:
            connection.execute("update orders set note = %s where id = %s", (large, some))
        elif what < 0.8:
            connection.execute("update items set line = line + 1, amount = -amount where order_id = %s", (some,))
        elif what < 0.87:
            connection.execute("delete from orders where id = %s", (some,))
            connection.execute("delete from items where order_id = %s", (some,))
        elif what < 0.9:
            connection.execute("update orders set id = %s where id = %s", (self.next_id, some))
            self.next_id += 1
        else:
            connection.execute("insert into events values (%s, %s)", (some, f"e{some}"))

    def _alter(self, connection: psycopg.Connection[Any]) -> None:
        self.columns += 1
        kind = self.rng.choice(["text", "int", "numeric(8, 3)", "text default 'old'", "drop", "truncate"])
        if kind == "truncate":
            connection.execute("truncate items")
        elif kind == "drop":
            connection.execute(f'alter table orders drop column if exists "extra{self.columns - 2}"')
        else:
            connection.execute(f"alter table orders add column extra{self.columns} {kind}")
            connection.execute(f"update orders set extra{self.columns} = '7' where id % 3 = 0")
