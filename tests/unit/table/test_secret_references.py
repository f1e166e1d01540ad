"""A secret by reference: the process that opens the client has the value, and nothing else ever does."""

from __future__ import annotations

import logging
import os
import pickle
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakelog import connect
from lakelog.catalog.rest_api import RestApi
from lakelog.cli.main import lakelog as command_line
from lakelog.errors import InvalidOption, LakelogError
from lakelog.io.secret_providers import MOST_BYTES
from lakelog.io.secrets import secret_value, without_storage_secrets
from lakelog.lake import Lake
from lakelog.logstore.base import LogLocation
from lakelog.logstore.credentials import credentials_of
from lakelog.logstore.kafka.topic import client
from lakelog.paimon.schema.changes import SetOption
from log_tables import log_of
from new_parts import installed

PLANTED = "planted-5f1c"
KEY = "properties.sasl.password"
LOCAL = "'log-store.enabled' = 'true', 'log-store.type' = 'embedded'"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets" / "password"
    path.parent.mkdir()
    path.write_text(f"{PLANTED}\n")
    path.chmod(0o600)
    return path


def test_a_reference_is_read_where_it_is_needed(secret_file: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("BROKER", PLANTED)
    assert secret_value(KEY, "secret:env:BROKER") == secret_value(KEY, f"secret:file:{secret_file}") == PLANTED
    assert secret_value(KEY, "any other text") == "any other text"
    with installed(tmp_path / "site"):
        assert secret_value(KEY, "secret:vault:broker/password") == "planted-in-a-vault"
        with pytest.raises(InvalidOption, match="the vault has no such path"):
            secret_value(KEY, "secret:vault:other")


def test_a_secret_that_is_not_there_is_named_without_a_value(secret_file: Path, tmp_path: Path, monkeypatch) -> None:
    def refused(reference: str, why: str) -> None:
        with pytest.raises(InvalidOption, match=why) as error:
            secret_value(KEY, reference)
        assert KEY in str(error.value) and PLANTED not in str(error.value)

    refused("secret:env:NOT_SET", "has no variable 'NOT_SET'")
    monkeypatch.setenv("BLANK", "")
    refused("secret:env:BLANK", "the secret is empty")
    refused(f"secret:enw:{PLANTED}", "did you mean 'env'")
    refused(f"secret:{PLANTED}", "names no provider")
    refused("secret:file:relative", "begins with '/'")
    refused("secret:file:/no/such", "No such file")
    refused(f"secret:file:{tmp_path}", "no regular file|Is a directory")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    refused(f"secret:file:{pipe}", "no regular file")
    for mode in (0o640, 0o604, 0o660):
        secret_file.chmod(mode)
        refused(f"secret:file:{secret_file}", f"chmod 600 {secret_file}")
    secret_file.chmod(0o600)
    secret_file.write_bytes(b"x" * (MOST_BYTES + 1))
    refused(f"secret:file:{secret_file}", "more than 65,536 bytes")
    secret_file.write_bytes(b"\xff")
    refused(f"secret:file:{secret_file}", "UTF-8")


LOG = LogLocation("kafka", "one:9092,TWO:9092", "t", 1, properties={"sasl.password": "secret:env:BROKER", "acks": "1"})


@pytest.mark.parametrize(
    "allowed",
    ["", "env:OTHER@one:9092,two:9092", "env:BROKER", "env:BROKER@one:9092", "env:BROKER@one:9092,two:90921"],
)
def test_a_table_gets_a_secret_only_for_servers_that_the_process_names(allowed: str, monkeypatch) -> None:
    monkeypatch.setenv("BROKER", PLANTED)
    monkeypatch.setenv("LAKELOG_SECRETS", allowed)
    with pytest.raises(InvalidOption, match=r"LAKELOG_SECRETS.*add 'env:BROKER@one:9092,two:9092'") as refused:
        client(LOG)
    assert PLANTED not in str(refused.value)
    monkeypatch.setenv("LAKELOG_SECRETS", f"{allowed} env:BROKER@one:9092 env:BROKER@kafka://two:9092")
    assert client(LOG)["sasl.password"] == credentials_of(LOG)["sasl.password"] == PLANTED
    pulsar = replace(LOG, system="pulsar", address="pulsar://one:9092")
    hidden = {"pulsar.client.authParams": "secret:env:BROKER", "pulsar.admin.adminUrl": "http://evil:80"}
    with pytest.raises(InvalidOption, match="'evil:80'"):
        credentials_of(replace(pulsar, properties=hidden))


def test_only_a_secret_may_be_a_reference(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d")
        for name in ("message.max.bytes", "ssl.key.location", "pulsar.admin.adminUrl"):
            with pytest.raises(InvalidOption, match=f"'properties.{name}' = 'secret:env:X' cannot be a reference"):
                lake.sql(f"create table d.t (id int) tblproperties ({LOCAL}, 'properties.{name}' = 'secret:env:X')")
        assert lake.list_tables("d") == []


def test_a_plain_secret_is_refused_unless_the_table_says_so(tmp_path: Path) -> None:
    plain = f"'{KEY}' = '{PLANTED}'"
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql(f"create database d; create table d.old (id int) tblproperties ({LOCAL})")
        for text in (
            f"create table d.t (id int) tblproperties ({LOCAL}, {plain})",
            f"create table d.t like d.old tblproperties ({plain})",
            f"alter table d.old set tblproperties ({plain})",
            f"alter table d.old set tblproperties ('kafka.sasl.password' = '{PLANTED}')",
        ):
            with pytest.raises(InvalidOption, match="secret:env:NAME.*'log-store.allow-plaintext' = 'true'") as refused:
                lake.sql(text)
            assert PLANTED not in str(refused.value)
        lake.sql(f"create table d.t (id int) tblproperties ({LOCAL}, {plain}, 'log-store.allow-plaintext' = 'true')")
        assert lake.list_tables("d") == ["d.old", "d.t"]


def test_no_file_of_a_warehouse_and_no_line_of_a_log_has_the_value(
    tmp_path: Path, secret_file: Path, monkeypatch, caplog
) -> None:
    warehouse, backup = tmp_path / "warehouse", tmp_path / "backup"
    catalog = f"sqlite:///{tmp_path}/{PLANTED}.db"  # an address with a password, as the option holds one
    monkeypatch.setenv("CATALOG", catalog)
    options = {"catalog.type": "sql", "catalog.uri": "secret:env:CATALOG"}
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG), connect(warehouse=str(warehouse), catalog_options=options) as lake:
        reference = f"'{KEY}' = 'secret:file:{secret_file}'"
        lake.sql(f"create table t (id int, primary key (id)) using lakelog tblproperties ({LOCAL}, {reference})")
        table = lake.table("t")
        table.write(pa.table({"id": pa.array([1, 2], pa.int32())}))
        table.create_tag("now")
        table.compact()
        lake.backup("t", str(backup))
        table.alter(SetOption("log-store.retention", "1 d"))
        shown += [*lake.sql("show create table t")[0].to_pylist(), str(table.describe(extended=True)), repr(lake)]
        shown += [str(lake.table(f"t${name}").scan().to_arrow().to_pylist()) for name in ("options", "schemas")]
        log = log_of(table)
        pickled = pickle.dumps((log, table.logical.location, table.logical.io))
    assert (tmp_path / f"{PLANTED}.db").exists()
    for text in shown[:2] + shown[3:]:
        assert f"secret:file:{secret_file}" in text
    assert PLANTED not in "".join(shown) and PLANTED not in caplog.text and PLANTED.encode() not in pickled
    files = [path for root in (warehouse, backup) for path in root.rglob("*") if path.is_file()]
    assert len(files) > 10 and not [path for path in files if PLANTED.encode() in path.read_bytes()]


def test_options_of_a_connection_may_be_references(tmp_path: Path, secret_file: Path, monkeypatch) -> None:
    monkeypatch.setenv("KEY", PLANTED)
    masked = without_storage_secrets(f"key {PLANTED}", [("s3.secret-key", "secret:env:KEY")])
    assert masked == "key ******"
    server = RestApi.of("http://127.0.0.1:1", f"secret:file:{secret_file.parent}/gone")
    assert PLANTED not in repr(server)
    with pytest.raises(InvalidOption, match="'catalog.token' = 'secret:file:.*No such file"):
        server.get("config")
    options = {"s3.secret-key": "secret:env:GONE", "s3.access-key": "a", "s3.endpoint": "http://127.0.0.1:1"}
    with (
        pytest.raises(LakelogError, match="'s3.secret-key' = 'secret:env:GONE'"),
        connect(warehouse="s3://bucket/w", storage_options=options) as lake,
    ):
        lake.list_databases()


def _with_plain_secrets(lake: Lake, warehouse: Path) -> None:
    for name in ("a", "b"):
        lake.sql(f"create table d.{name} (id int) tblproperties ({LOCAL})")
        path = warehouse / "d.db" / name / "schema" / "schema-0"
        schema = orjson.loads(path.read_bytes())
        schema["options"] |= {KEY: PLANTED, "log-store.allow-plaintext": "true"}
        path.write_bytes(orjson.dumps(schema))


def test_migrate_replaces_secrets_by_references_of_the_same_value(tmp_path: Path, monkeypatch) -> None:
    warehouse, run = tmp_path / "w", CliRunner().invoke
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql("create database d; create table d.c (id int)")
        _with_plain_secrets(lake, warehouse)

        def migrate(*more: str) -> str:
            answer = run(command_line, ["secrets", "migrate", "--warehouse", str(warehouse), "--format", "csv", *more])
            assert PLANTED not in answer.output and PLANTED not in repr(answer.exception)
            return answer.output if answer.exception is None else str(answer.exception)

        (tmp_path / "s").mkdir()
        to = f"--to=secret:file:{tmp_path}/s/{{table}}.{{key}}"
        assert "is no reference" in migrate("--to=KAFKA")
        listed = migrate(to, "--dry-run", "--write-files")
        assert listed.count("No such file") == 2 and f"d.a,{KEY},secret:file:{tmp_path}/s/a.sasl.password," in listed
        assert "nothing was changed" in migrate(to)
        monkeypatch.setenv("KAFKA_A", "another")
        assert "has another value than the table" in migrate("--to=secret:env:KAFKA_{table}", "d.a")
        assert [lake.table(name).options[KEY] for name in ("d.a", "d.b")] == [PLANTED, PLANTED]
        done = migrate(to, "--write-files")
        assert done.count("replaced") == 2 and "Older schema files, backups and replicas" in done
        for name in "ab":
            reference = lake.table(f"d.{name}").options[KEY]
            assert reference == f"secret:file:{tmp_path}/s/{name}.sasl.password"
            assert secret_value(KEY, reference) == PLANTED
            assert "log-store.allow-plaintext" not in lake.table(f"d.{name}").options
        assert "replaced" not in migrate(to)
