"""What only a real server shows of the catalog and the lock by a database: restarts, refusals, isolation, limits."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog import connect
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.sql import SqlCatalog
from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, Unavailable
from lakelog.io.locks.sql import SqlLock
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.options.option import Options
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import INT
from lakelog.service.servers.server_process import free_port
from servers.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

SCHEMA = new_schema([("id", INT, None)])
ORDERS = Identifier("shop", "orders")


def catalog_at(url: str, io: MemoryFileIO | None = None, key: str | None = None) -> SqlCatalog:
    options = Options({"catalog.uri": url, "catalog.key": key or uuid.uuid4().hex})
    return SqlCatalog("/warehouse", io or MemoryFileIO(uuid.uuid4().hex), options)


@pytest.fixture
def catalog(postgres_server: PostgresServer) -> SqlCatalog:
    made = catalog_at(postgres_server.url)
    made.create_database("shop")
    made.create_table(ORDERS, SCHEMA)
    return made


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_catalog_goes_on_when_its_server_is_back(
    catalog: SqlCatalog, postgres_server: PostgresServer, end: str
) -> None:
    getattr(postgres_server, end)()
    try:
        with pytest.raises(Unavailable, match="the database of the catalog cannot be used") as raised:
            catalog.list_tables("shop")
        assert raised.value.retriable and postgres_server.password not in str(raised.value)
    finally:
        postgres_server.start()
    assert catalog.list_tables("shop") == ["orders"]
    catalog.rename_table(ORDERS, Identifier("shop", "sold"))
    assert catalog.list_tables("shop") == ["sold"]


def test_sessions_that_the_server_ended_are_opened_again(catalog: SqlCatalog, postgres_server: PostgresServer) -> None:
    postgres_server.run("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    assert catalog.list_tables("shop") == ["orders"]


def test_no_error_shows_the_password(postgres_server: PostgresServer) -> None:
    url = postgres_server.url
    refused = {
        url.replace(postgres_server.password, "wrong-hush"): "password authentication failed",
        url.replace("/postgres", "/no_such_database"): 'database "no_such_database" does not exist',
        url.replace(str(postgres_server.port), str(free_port())): "refused",
        url.replace("127.0.0.1", "localhost").replace(str(postgres_server.port), str(free_port())): "refused",
        url.replace("127.0.0.1", "host.invalid"): "host.invalid",
    }
    for wrong, said in refused.items():
        with pytest.raises(Unavailable, match=said) as raised:
            catalog_at(wrong).list_databases()
        shown = f"{raised.value!r} {raised.value.__cause__!r}"
        assert "hush" not in shown and "paimon_tables" not in shown, "neither the password nor the statement"


@pytest.fixture
def strict_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database whose administrator wants transactions to be serializable."""
    name = f"strict_{uuid.uuid4().hex}"
    postgres_server.run(f"create database {name}")
    postgres_server.run(f"alter database {name} set default_transaction_isolation = 'serializable'")
    yield postgres_server.url.replace("/postgres", f"/{name}")
    postgres_server.run(f"drop database {name} with (force)")


def test_rivals_lose_whatever_isolation_the_database_prefers(strict_url: str) -> None:
    io, key = MemoryFileIO(uuid.uuid4().hex), uuid.uuid4().hex
    catalogs = [catalog_at(strict_url, io, key) for _ in range(4)]
    catalogs[0].create_database("shop")
    for at in range(10):
        catalogs[0].create_table(Identifier("shop", f"t{at}"), SCHEMA)
        together, told = threading.Barrier(4), []

        def rename(mine: SqlCatalog, old: Identifier, new: Identifier, together=together, told=told) -> None:
            together.wait()
            try:
                mine.rename_table(old, new)
                told.append("done")
            except Exception as failure:
                told.append(type(failure).__name__)

        names = [(Identifier("shop", f"t{at}"), Identifier("shop", f"t{at}_{n}")) for n in range(4)]
        threads = [threading.Thread(target=rename, args=(c, *n)) for c, n in zip(catalogs, names, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == ["NotFound", "NotFound", "NotFound", "done"]


def test_a_name_that_does_not_fit_is_refused_for_good(catalog: SqlCatalog) -> None:
    with pytest.raises(InvalidRequest, match="too long"):
        catalog.create_table(Identifier("shop", "x" * 300), SCHEMA)
    assert catalog.list_tables("shop") == ["orders"]


def test_first_users_make_the_tables_together(postgres_server: PostgresServer) -> None:
    name = f"new_{uuid.uuid4().hex}"
    postgres_server.run(f"create database {name}")
    url = postgres_server.url.replace("/postgres", f"/{name}")
    script = (
        "import sys; from lakelog.table.open import open_catalog; sys.stdin.readline();"
        "open_catalog('/tmp/nowhere', None, {'catalog.type': 'sql', 'catalog.uri': sys.argv[1]}).list_databases()"
    )
    pipe = subprocess.PIPE
    users = [subprocess.Popen([sys.executable, "-c", script, url], stdin=pipe, stderr=pipe) for _ in range(5)]
    time.sleep(2.0)  # all are waiting then
    for user in users:
        assert user.stdin is not None
        user.stdin.write(b"\n")
        user.stdin.flush()
    said = [user.communicate(timeout=120)[1] for user in users]
    assert [user.returncode for user in users] == [0] * 5, said
    postgres_server.run(f"drop database {name} with (force)")


def test_two_catalogs_of_one_lake_in_one_database(postgres_server: PostgresServer, tmp_path: Path) -> None:
    def options(key: str) -> dict[str, str]:
        return {"catalog.type": "sql", "catalog.uri": postgres_server.url, "catalog.key": key}

    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    lake = connect(warehouse=str(tmp_path / "one"), catalog_options=options(one))
    pairs = ", ".join(f"'{k}' = '{v}'" for k, v in {"warehouse": str(tmp_path / "two"), **options(two)}.items())
    lake.sql(f"create catalog second with ({pairs}); create table db.t (id int) using lakelog")
    assert (lake.list_tables(), lake.list_tables(catalog="second")) == (["db.t"], [])
    lake.sql("create table second.db.t (id int) using lakelog; drop table db.t")
    assert (lake.list_tables(), lake.list_tables(catalog="second")) == ([], ["second.db.t"])
    with pytest.raises(AlreadyExists, match=r"table second\.db\.t exists"):
        lake.sql("create table second.db.t (id int) using lakelog")
    with pytest.raises(NotFound, match=r"second\.db\.u"):
        lake.table("second.db.u")


def test_the_lock_lets_one_in_and_is_free_when_its_holder_dies(postgres_server: PostgresServer) -> None:
    lock, path, counted = SqlLock(postgres_server.url), f"/{uuid.uuid4().hex}", [0]

    def count() -> None:
        for _ in range(10):
            with lock.held(path):
                before = counted[0]
                time.sleep(0.002)
                counted[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == [40]

    script = (
        "import sys, time; from lakelog.io.locks.sql import SqlLock\n"
        "with SqlLock(sys.argv[1]).held(sys.argv[2]):\n    print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, postgres_server.url, path], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    entered = threading.Event()

    def enter() -> None:
        with lock.held(path):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.5)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert entered.wait(120)
    waiting.join()
