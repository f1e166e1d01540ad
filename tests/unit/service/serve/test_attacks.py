"""What nobody should get: each attack is refused by a code, and the server answers the next call."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_servers import PASSWORD, TOKEN, RunningServer, bearer, running_server
from lakelog.lake import Lake
from lakelog.service.access.users import Users
from lakelog.service.serve.messages import message, packed
from lakelog.sql.runtime.statement import Privilege

SECRET = "the-content-of-a-secret-file"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
FUNCTIONS = ("read_csv", "read_text", "read_blob", "read_parquet", "read_json", "glob", "parquet_scan", "sniff_csv",
             "duckdb_settings", "duckdb_secrets", "getenv", "sqlite_scan", "postgres_scan", "arrow_scan")  # fmt: skip
FORMATS = ("csv", "text", "json", "parquet", "orc", "avro", "binaryFile", "delta", "jdbc")
CHANGES = (
    "DROP TABLE db.t", "DELETE FROM db.t", "UPDATE db.t SET name = 'x'", "INSERT INTO db.t VALUES (9, 'x')",
    "TRUNCATE TABLE db.t", "CREATE TABLE db.n (id INT)", "CREATE DATABASE n", "DROP DATABASE db CASCADE",
    "ALTER TABLE db.t ADD COLUMN n INT", "ALTER TABLE db.t RENAME TO db.u", "CREATE CATALOG c WITH (warehouse='/')",
    "CALL sys.compact('db.t')", "VACUUM db.t", "SET a = b", "ADD JAR '/x.jar'", "CREATE FUNCTION f AS 'X'",
    "CACHE TABLE db.t", "USE db", "RESET", "MERGE INTO db.t USING db.t s ON false WHEN MATCHED THEN DELETE",
    "CREATE VIEW v AS SELECT 1", "LOAD DATA INPATH '/etc/passwd' INTO TABLE db.t", "EXPORT TABLE db.t TO '/x'",
    "COPY db.t TO '/tmp/x'", "ATTACH '/x.db'", "INSTALL httpfs", "LOAD httpfs", "PRAGMA version", "BEGIN",
)  # fmt: skip
OPTIONS = ("properties.ssl.ca.location", "properties.sasl.oauthbearer.config", "hadoop.fs.s3a.impl",
           "log-store.address", "properties.plugin.library.paths", "properties.ssl.keystore.location")  # fmt: skip


def statements(place: Path) -> Iterator[str]:
    file = place / "secret.csv"
    for function in FUNCTIONS:
        yield f"SELECT * FROM {function}('{file}')"
        yield f"SELECT {function}('{file}')"
        yield f"SELECT * FROM db.t WHERE name IN (SELECT * FROM {function}('{file}'))"
    for form in FORMATS:
        yield f"SELECT * FROM {form}.`{file}`"
        yield f"SELECT * FROM {form}.`file://{file}`"
    for path in (file, f"{file}.gz", f"../{file.name}", f"{place}/db.db/t", "/proc/self/environ"):
        yield f"SELECT * FROM '{path}'"
        yield f"SELECT * FROM `{path}`"
        yield f'SELECT * FROM "{path}"'
    yield from CHANGES
    yield from (f"EXPLAIN {text}; {text}" for text in CHANGES)
    for option in OPTIONS:
        yield f"SELECT * FROM db.t /*+ OPTIONS('{option}' = '{file}') */"
    yield from ("", ";", "SELECT 1; SELECT 2", "\0", "(" * 10_000, "SELECT " + "(" * 2_000 + "1" + ")" * 2_000)
    yield "SELECT " + "x" * (2 << 20)
    yield "SELECT java_method('java.lang.Runtime', 'getRuntime')"
    yield "SELECT reflect('java.lang.System', 'getenv', 'PATH')"
    yield "SELECT * FROM db.`t$branch_../../x`"
    yield "SELECT * FROM db.`../t`"


def commands() -> Iterator[bytes]:
    command = packed(message("CommandGetTables", table_types=["TABLE"] * 3, include_schema=True))
    yield from (command[:size] for size in range(1, len(command), 6))
    yield from (bytes([number]) * 9 for number in range(0, 256, 17))
    yield from (b"", b"{}", b"[]", b"{" * 100_000, b'{"changes": 1}', b'{"write": {}}', b'{"changes": {}, "write": {}}')
    yield packed(message("TicketStatementQuery", statement_handle=b"\xff\xfe"))
    yield b"\x0a\xff\xff\xff\xff\x0f"


POSITIONS = ("", "x", "{}", "[]", '{"offsets": 1}', '{"buckets": {"0": -1}}', "{" * 10_000,
             '{"state": {"id": "../../x"}}')  # fmt: skip
WRITERS = ("", "../x", "a/b", "a~b", "x" * 65, "é", "\0", "-", None, 1, ["w"], {"a": 1})
TABLES = ("", "nothing", "db.t$snapshots", "db.`../t`", "db.t; DROP TABLE db.t", "/etc/passwd", None, 7)


def put(client: Any, options: Any, request: Any, batch: Any = None, epoch: bytes = b"1") -> None:
    command = request if isinstance(request, bytes) else orjson.dumps({"write": request})
    schema = SCHEMA if batch is None else batch.schema
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), schema, options)
    if batch is not None:
        writer.write_with_metadata(batch, epoch)
    writer.done_writing()
    while reader.read() is not None:
        pass
    writer.close()


@pytest.fixture
def attacked(lake: Lake, tmp_path: Path) -> Iterator[tuple[RunningServer, Any]]:
    (tmp_path / "secret.csv").write_text(f"{SECRET}\n")
    users = Users(tmp_path / "users")
    users.put("eve", Privilege.WRITE, PASSWORD)
    users.put("rob", Privilege.READ, PASSWORD)
    with running_server(tmp_path, users_file=users.path, token=TOKEN) as server, server.client() as client:
        yield server, client


def refused(attack: Callable[[], Any]) -> bool:
    """True if an attack fails by an error that has a code and no path of the server's code."""
    try:
        answer = attack()
    except (flight.FlightError, pa.ArrowException, KeyError, NotImplementedError, ValueError) as failure:
        return "Traceback" not in str(failure) and SECRET not in str(failure)
    assert SECRET not in str(answer)
    return False


def test_no_attack_succeeds(attacked: tuple[RunningServer, Any], lake: Lake, tmp_path: Path) -> None:
    server, client = attacked
    eve, rob = (
        flight.FlightCallOptions(headers=[client.authenticate_basic_token(name, PASSWORD)], timeout=60)
        for name in ("eve", "rob")
    )
    before = lake.table("db.t").to_arrow().sort_by("id")

    def read(command: bytes, options: Any = eve) -> Any:
        return client.do_get(flight.Ticket(command), options).read_chunk().data.to_pylist()

    def query(text: str, options: Any = eve) -> Any:
        return read(packed(message("CommandStatementQuery", query=text)), options)

    attacks: list[tuple[str, Callable[[], Any]]] = []
    for text in statements(tmp_path):
        attacks.append((f"statement {text[:70]}", lambda text=text: query(text)))
    for command in commands():
        attacks.append((f"ticket {command[:40]!r}", lambda command=command: read(command)))
    for position in POSITIONS:
        request = orjson.dumps({"changes": {"table": "db.t", "position": position}})
        attacks.append((f"position {position[:40]}", lambda request=request: read(request)))
    for table in TABLES:
        request = orjson.dumps({"changes": {"table": table}})
        attacks.append((f"changes of {table}", lambda request=request: read(request)))
        write = {"table": table, "writer": "w"}
        attacks.append((f"write to {table}", lambda write=write: put(client, eve, write)))
    for writer in WRITERS:
        write = {"table": "db.t", "writer": writer}
        attacks.append((f"writer {writer}", lambda write=write: put(client, eve, write)))
    good = {"table": "db.t", "writer": "w"}
    rows = pa.record_batch([[1], ["x"]], schema=SCHEMA)
    for epoch in (b"", b"-1", b"1e9", b"9" * 40, b"\xff", "٣".encode()):
        attacks.append((f"epoch {epoch!r}", lambda epoch=epoch: put(client, eve, good, rows, epoch)))
    large = pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0] * 9, pa.int8()), ["x" * 9])], names=["name"])
    attacks += [
        ("a dictionary", lambda: put(client, eve, good, large)),
        ("other columns", lambda: put(client, eve, good, pa.record_batch([[1]], names=["nothing"]))),
        ("the role", lambda: put(client, rob, good, rows)),
        ("no descriptor", lambda: put(client, eve, b"", rows)),
    ]
    tokens = ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é", f"{TOKEN} x", "Bearer", "null"]
    for token in [*tokens, *map("".join, itertools.islice(itertools.permutations(string.ascii_letters, 8), 5))]:
        options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())])
        attacks.append((f"token {token}", lambda options=options: query("SELECT 1", options)))
    for scheme in (b"", b"Basic", b"Basic !!!", b"Basic eA==", b"Digest x", TOKEN.encode()):
        options = flight.FlightCallOptions(headers=[(b"authorization", scheme)])
        attacks.append((f"authorization {scheme!r}", lambda options=options: query("SELECT 1", options)))
    attacks.append(("nobody", lambda: query("SELECT 1", flight.FlightCallOptions())))
    for name, password in (("eve", "x"), ("nobody", PASSWORD), ("", ""), ("eve", ""), ("token", "x"), ("root", "root")):
        attacks.append((f"login {name}", lambda n=name, p=password: client.authenticate_basic_token(n, p)))

    assert len(attacks) >= 200
    successes = [name for name, attack in attacks if not refused(attack)]
    assert successes == []
    assert query("SELECT count(*) AS n FROM db.t", bearer(TOKEN)) == [{"n": 3}]
    assert lake.table("db.t").to_arrow().sort_by("id") == before
    assert not (tmp_path / "x").exists()
