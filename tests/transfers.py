"""Transfers between accounts of four tables of PostgreSQL: at each moment the sum of all accounts is the same."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from lakelog import Lake
from source_database import SourceDatabase

ACCOUNTS: tuple[str, ...] = ("checking", "savings", "credit", "cash")
PER_TABLE, OPENING = 50, 1_000
TOTAL = len(ACCOUNTS) * PER_TABLE * OPENING


def make_accounts(database: SourceDatabase) -> None:
    """The tables, each with the same accounts; one has the full row as its replica identity."""
    for name in ACCOUNTS:
        database.run(
            f"create table {name} (id int primary key, balance bigint not null, note text)",
            f"insert into {name} select g, {OPENING}, '' from generate_series(1, {PER_TABLE}) g",
        )
    database.run(f"alter table {ACCOUNTS[-1]} replica identity full")


class Transfers:
    """Random transfers; each transaction moves money between several accounts of several tables."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.done = 0

    def transaction(self, connection: psycopg.Connection[Any]) -> None:
        """One to five transfers, some of which open a new account or close an empty one; a tenth are rolled back."""
        rng = self._rng
        with connection.transaction(force_rollback=rng.random() < 0.1):
            for _ in range(rng.choice([1, 1, 2, 5])):
                source, target = rng.sample(ACCOUNTS, 2)
                amount = rng.randint(1, 200)
                self._add(connection, source, rng.randint(1, PER_TABLE), -amount)
                if rng.random() < 0.1:
                    self._open(connection, target, amount)
                else:
                    self._add(connection, target, rng.randint(1, PER_TABLE), amount)
        self.done += 1

    def _add(self, connection: psycopg.Connection[Any], table: str, account: int, amount: int) -> None:
        statement = sql.SQL("update {} set balance = balance + %s, note = %s where id = %s").format(
            sql.Identifier(table)
        )
        connection.execute(statement, (amount, str(self.done), account))

    def _open(self, connection: psycopg.Connection[Any], table: str, amount: int) -> None:
        """A new account with an amount, in place of the oldest one of those, whose rest moves to account 1."""
        name = sql.Identifier(table)
        new_id = PER_TABLE + 1 + 2 * self.done + self._rng.randint(0, 1)
        connection.execute(
            sql.SQL(
                "insert into {0} values (%s, %s, 'new') on conflict (id) do update set balance = {0}.balance + "
                "excluded.balance"
            ).format(name),
            (new_id, amount),
        )
        closed = connection.execute(
            sql.SQL(
                "delete from {0} where id = (select min(id) from {0} where id > %s and id <> %s) returning balance"
            ).format(name),
            (PER_TABLE, new_id),
        ).fetchone()
        if closed is not None:
            self._add(connection, table, 1, closed[0])


def _sum(lake: Lake, options: Mapping[str, str]) -> int:
    rows = (lake.table(f"db.{name}").scan(columns=["balance"], options=options).to_arrow() for name in ACCOUNTS)
    return sum(balance for found in rows for balance in found.column("balance").to_pylist())


def sum_of_files(lake: Lake) -> int:
    """The sum of all accounts of the newest cut, from the files."""
    return _sum(lake, lake.cut([f"db.{name}" for name in ACCOUNTS]).options)


def sum_of_union(lake: Lake) -> int:
    """The same by a read of both stores."""
    return _sum(lake, {**lake.cut([f"db.{name}" for name in ACCOUNTS]).options, "read.mode": "union"})


def sum_of_sql(lake: Lake) -> int:
    """The same by one statement."""
    each = " UNION ALL ".join(f"SELECT balance FROM db.{name} /*+ OPTIONS('read.cut'='newest') */" for name in ACCOUNTS)
    found = lake.sql(f"SELECT CAST(sum(balance) AS BIGINT) AS total FROM ({each})")
    rows = found.collect() if hasattr(found, "collect") else found.to_pylist()
    return int(rows[0]["total"])


def plain_sum(lake: Lake) -> int:
    """The sum without a cut: of the newest snapshots, which belong to no common moment."""
    return _sum(lake, {})
