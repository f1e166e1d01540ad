"""What a terminal's roles may do and what nobody may: statements, options, catalogs, secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from lakelog import connect
from lakelog.service.terminal import Privilege, Terminal, TerminalConfig
from terminals import done, rows, run

READ = ("SHOW TABLES IN db", "DESCRIBE db.t", "SHOW CREATE TABLE db.t", "SHOW TBLPROPERTIES db.t", "USE db")
WRITE = (
    "CREATE TABLE db.mine (id INT) USING lakelog",
    "ALTER TABLE db.t SET TBLPROPERTIES ('snapshot.num-retained.min' = '3')",
    "DROP TABLE IF EXISTS db.nothing",
    "TRUNCATE TABLE db.t",
    "ALTER TABLE db.t CREATE TAG one",
    "COMMENT ON TABLE db.t IS 'x'",
    "FROM db.t INSERT INTO db.t SELECT *",
    "WITH x AS (SELECT 1, 'a') INSERT INTO db.t SELECT * FROM x",
    "/* SELECT */ DELETE FROM db.t",
    "MERGE INTO db.t USING db.t AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
)
ADMIN = (
    "CREATE DATABASE other",
    "DROP DATABASE db CASCADE",
    "CALL sys.compact(table => 'db.t')",
    "CREATE CATALOG c WITH ('warehouse' = 's3://bucket/w')",
    "DROP CATALOG c",
    "VACUUM db.t",
    "OPTIMIZE db.t",
    "RESTORE TABLE db.t TO VERSION AS OF 1",
)


@pytest.mark.parametrize("text", READ)
def test_a_reader_may_view(reader: Terminal, text: str) -> None:
    done(reader, text)


@pytest.mark.parametrize("text", [*WRITE, *ADMIN])
def test_a_reader_may_change_nothing(reader: Terminal, text: str) -> None:
    execution = run(reader, f"SHOW TABLES IN db; {text}")
    error = execution.snapshot().error
    assert error is not None and error.refused and error.kind == "NotAllowed"
    assert "these statements run as read" in error.message
    assert [s.state for s in execution.snapshot().statements] == ["skipped", "failed"]


@pytest.mark.parametrize("text", ADMIN)
def test_a_writer_may_do_nothing_of_an_admin(writer: Terminal, text: str) -> None:
    error = run(writer, text).snapshot().error
    assert error is not None and error.refused
    assert "needs the role admin, these statements run as write" in error.message


def test_a_writer_makes_tables_but_no_database_on_the_way(writer: Terminal, admin: Terminal) -> None:
    done(writer, "CREATE TABLE db.made (id INT) USING lakelog; DROP TABLE db.made")
    error = run(writer, "CREATE TABLE elsewhere.made (id INT) USING lakelog").snapshot().error
    assert error is not None and error.refused and "creating one needs the role admin" in error.message
    assert ["elsewhere"] not in rows(admin, "SHOW DATABASES")


REFUSED_OPTIONS = (
    "CREATE TABLE db.x (id INT) USING lakelog TBLPROPERTIES ('log-store.enabled' = 'true', "
    "'log-store.address' = '/tmp/anywhere.sqlite', 'log-store.type' = 'embedded')",
    "CREATE TABLE db.x (id INT) USING lakelog TBLPROPERTIES ('log-store.enabled' = 'true', "
    "'log.system' = 'embedded', 'kafka.bootstrap.servers' = '../../anywhere')",
    *(
        f"CREATE TABLE db.x (id INT) WITH ('log-store.enabled' = 'true', 'log-store.address' = 'localhost:1', "
        f"'properties.{key}' = '/tmp/x')"
        for key in (
            "plugin.library.paths", "ssl.engine.location", "ssl.ca.location", "ssl.keystore.location",
            "ssl.certificate.location", "ssl.key.location", "sasl.kerberos.kinit.cmd", "sasl.kerberos.keytab",
            "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.config", "sasl.jaas.config",
            "interceptor.classes", "config.providers", "PLUGIN.LIBRARY.PATHS", "unheard.of",
        )
    ),
    "CREATE TABLE db.x (id INT) WITH ('log-store.enabled' = 'true', 'log-store.address' = 'pulsar://h:1', "
    "'properties.pulsar.client.authParams' = 'token:file:///etc/passwd')",
    "CREATE TABLE db.x (id INT) WITH ('log-store.enabled' = 'true', 'log-store.address' = 'pulsar://h:1', "
    "'properties.pulsar.client.authParams' = 'tlsCertFile:/etc/passwd,tlsKeyFile:/etc/shadow')",
    "ALTER TABLE db.t SET TBLPROPERTIES ('properties.plugin.library.paths' = '/tmp/x.so')",
    "ALTER TABLE db.t SET TBLPROPERTIES ('log-store.type' = 'embedded', 'log-store.address' = '/tmp/x')",
    "CREATE TABLE db.x LIKE db.t TBLPROPERTIES ('properties.ssl.ca.location' = '/etc/passwd')",
    "CREATE TABLE db.x (id INT) WITH ('log-store.enabled' = 'true', 'log-store.address' = 'localhost:1', "
    "'kafka.sasl.password' = 'secret:env:AWS_SECRET_ACCESS_KEY')",
    "CREATE TABLE db.x LIKE db.t TBLPROPERTIES ('properties.sasl.password' = 'secret:file:/etc/shadow')",
    "ALTER TABLE db.t SET TBLPROPERTIES ('properties.sasl.username' = 'secret:env:HOME')",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED_OPTIONS)
def test_options_that_name_files_programs_or_classes_are_refused(writer: Terminal, text: str) -> None:
    execution = run(writer, text)
    error = execution.snapshot().error
    assert error is not None and error.refused, execution.snapshot()
    assert ["db", "x"] not in rows(writer, "SHOW TABLES IN db")


REFUSED_CATALOGS = (
    "'warehouse' = '/etc'",
    "'warehouse' = 'relative/place'",
    "'warehouse' = 'FILE:///etc'",
    "'warehouse' = 's3://b/w', 'catalog.type' = 'sql', 'catalog.uri' = 'sqlite:////tmp/x.db'",
    "'warehouse' = 's3://b/w', 'catalog.type' = 'sql', 'catalog.uri' = 'sqlite+pysqlite:///file:/etc/passwd?uri=true'",
    *(
        f"'warehouse' = 's3://b/w', 'catalog.type' = 'sql', 'catalog.uri' = '{url}'"
        for url in (
            "postgresql+psycopg:///x",  # a socket of the server, whose users need no password there
            "postgresql+psycopg://h/x?host=/var/run/postgresql",
            "postgresql+psycopg://h/x#?host=/var/run/postgresql",
            "postgresql+psycopg://h:p/x@/x",
            "postgresql+psycopg://%2Fvar%2Frun/x",
            "postgresql+psycopg://h/x?passfile=/root/.pgpass",
            "mysql+pymysql://h/x?local_infile=1",
            "mysql+pymysql://h/x?charset=utf8&read_default_file=/etc/passwd",
        )
    ),
    "'warehouse' = 's3://b/w', 'storage.lock' = 'sql', 'storage.lock.address' = 'mysql+pymysql://h/x?local_infile=1'",
    "'warehouse' = 's3://b/w', 'storage.lock' = 'file'",
    "'warehouse' = 's3://b/w', 'storage.lock' = 'sql', 'storage.lock.address' = 'sqlite:////tmp/x.db'",
    "'warehouse' = 's3://b/w', 'fields.others.place' = '/etc'",
    "'warehouse' = 's3://b/w', 's3.secret-key' = 'secret:env:AWS_SECRET_ACCESS_KEY', 's3.endpoint' = 'http://evil:80'",
    "'warehouse' = 's3://b/w', 'catalog.type' = 'rest', 'catalog.uri' = 'http://evil:80', "
    "'catalog.token' = 'secret:file:/etc/shadow'",
    "'warehouse' = 'hdfs://h/w', 'hadoop.hadoop.security.key.provider.path' = 'x'",
)


@pytest.mark.parametrize("options", REFUSED_CATALOGS)
def test_a_catalog_on_files_of_the_server_is_refused_also_to_an_admin(admin: Terminal, options: str) -> None:
    error = run(admin, f"CREATE CATALOG c WITH ({options})").snapshot().error
    assert error is not None and error.refused, error
    assert "--allow-local-files" in error.message
    assert ["c"] not in rows(admin, "SHOW CATALOGS")


def test_an_admin_may_open_a_directory_where_the_server_allows_it(warehouse: str, tmp_path: Path) -> None:
    config = TerminalConfig(warehouse, role=Privilege.ADMIN, allow_local_files=True)
    with Terminal(config) as terminal:
        done(terminal, f"CREATE CATALOG c WITH ('warehouse' = '{tmp_path}')")
    with Terminal(replace(config, role=Privilege.WRITE)) as terminal:
        error = run(terminal, f"CREATE CATALOG c WITH ('warehouse' = '{tmp_path}')").snapshot().error
        assert error is not None and error.refused


@pytest.mark.parametrize("name", ["`..`.t", "`../x`.t", "db.`../../etc`", "db.`t$branch_../../x`", "`/etc`.passwd"])
def test_a_name_leads_out_of_the_warehouse_nowhere(writer: Terminal, name: str) -> None:
    assert run(writer, f"DESCRIBE {name}").state == "failed"
    assert run(writer, f"CREATE TABLE {name} (id INT) USING lakelog").state == "failed"


@pytest.mark.parametrize("key", ["properties.acks", "properties.security.protocol"])
@pytest.mark.parametrize("text", ["INSERT INTO db.t {} VALUES (1, 'a')", "DELETE FROM db.t {} WHERE id = 1"])
def test_a_hint_has_no_option_of_the_logs_client(writer: Terminal, text: str, key: str) -> None:
    error = run(writer, text.format(f"/*+ OPTIONS('{key}' = 'all') */")).snapshot().error
    assert error is not None and error.kind in ("NotAllowed", "UnsupportedStatement")


SECRETS = {
    "properties.sasl.password": "hunter1",
    "fs.oss.accessKeySecret": "hunter2",
    "dlf.token": "hunter3",
    "jdbc.url": "jdbc:postgresql://ann:hunter4@host/db",
    "s3.secret-key": "hunter5",
    "catalog.token": "hunter6",
}


@pytest.fixture(scope="module")
def table_with_secrets(admin: Terminal, warehouse: str) -> str:
    """A table that another engine gave options which lakelog does not know."""
    done(admin, "CREATE TABLE db.secrets (id INT, PRIMARY KEY (id)) USING lakelog")
    path = Path(warehouse) / "db.db" / "secrets" / "schema" / "schema-0"
    schema = orjson.loads(path.read_bytes())
    schema["options"] |= SECRETS
    path.write_bytes(orjson.dumps(schema))
    return "db.secrets"


@pytest.mark.parametrize(
    "text",
    [
        "SHOW TBLPROPERTIES {}",
        "SHOW TBLPROPERTIES {} ('dlf.token')",
        "SHOW CREATE TABLE {}",
        "DESCRIBE EXTENDED {}",
        "DESCRIBE DETAIL {}",
        "SHOW TABLE EXTENDED IN db LIKE 'secrets'",
        "ALTER TABLE {} SET TBLPROPERTIES ('passwort.secret' = 'hunter9')",
    ],
)
def test_no_statement_shows_a_secret_of_a_table(
    admin: Terminal, reader: Terminal, table_with_secrets: str, text: str
) -> None:
    for terminal in (admin, reader):
        execution = run(terminal, text.format(table_with_secrets))
        told = orjson.dumps([event.data for event in execution.events() if event.kind != "parsed"]).decode()
        assert "hunter" not in told
        assert execution.state == "failed" or "******" in told


def test_only_an_admin_takes_secrets_to_another_table_or_address(
    writer: Terminal, admin: Terminal, table_with_secrets: str, warehouse: str
) -> None:
    for change in (
        "SET TBLPROPERTIES ('log-store.address' = 'evil:9')",
        "SET TBLPROPERTIES ('kafka.bootstrap.servers' = 'evil:9')",
        "SET TBLPROPERTIES ('Kafka.Bootstrap.Servers' = 'evil:9')",
        "SET TBLPROPERTIES ('log.system' = 'pulsar')",
        "UNSET TBLPROPERTIES ('kafka.bootstrap.servers')",
        "RESET ('log.system')",
        "SET TBLPROPERTIES ('properties.sasl.mechanism' = 'PLAIN')",
        "SET TBLPROPERTIES ('kafka.sasl.mechanisms' = 'PLAIN')",
        "SET TBLPROPERTIES ('log.kafka.sasl.mechanism' = 'PLAIN')",
        "SET TBLPROPERTIES ('table-storage.kafka.sasl.mechanism' = 'PLAIN')",
        "SET TBLPROPERTIES ('properties.sasl.password' = 'mine')",
        "SET TBLPROPERTIES ('properties.sasl.username' = 'me')",
        "SET TBLPROPERTIES ('properties.pulsar.client.authParams' = 'mine')",
        "UNSET TBLPROPERTIES ('properties.sasl.mechanism')",
        "RESET ('kafka.sasl.password')",
    ):
        error = run(writer, f"ALTER TABLE {table_with_secrets} {change}")
        assert "would be sent there" in str(error.snapshot().error), change
    with connect(warehouse=warehouse) as lake:
        text = f"ALTER TABLE {table_with_secrets} UNSET TBLPROPERTIES ('dlf.token')"
        assert lake.sql(text) is not None
    run(writer, f"CREATE TABLE db.taken LIKE {table_with_secrets}")
    taken = Path(warehouse) / "db.db" / "taken" / "schema" / "schema-0"
    assert not taken.exists() or "hunter" not in taken.read_text()


@pytest.mark.parametrize(
    "options",
    [
        "'log-store.address' = '169.254.169.254:80'",
        "'kafka.bootstrap.servers' = 'inside:22'",
        "'Kafka.Bootstrap.Servers' = 'broker:9092,inside:22'",
        "'log-store.address' = 'PULSAR://inside:6650'",
        "'log.kafka.bootstrap.servers' = 'inside:9092'",
        "'log-store.address' = 'pulsar://user@broker:9092'",
        "'log-store.address' = 'pulsar://broker:9092', 'properties.pulsar.admin.adminUrl' = 'http://inside:80'",
        "'log-store.schema-registry.url' = 'http://169.254.169.254'",
    ],
)
def test_a_writer_makes_the_server_connect_to_no_address_of_his_own(writer: Terminal, options: str) -> None:
    refused = (
        f"CREATE TABLE db.x (id INT) USING lakelog TBLPROPERTIES ('log-store.enabled' = 'true', {options})",
        f"CREATE TABLE db.x LIKE db.t TBLPROPERTIES ('log-store.enabled' = 'true', {options})",
        f"ALTER TABLE db.t SET TBLPROPERTIES ({options})",
    )
    for text in refused:
        error = run(writer, text).snapshot().error
        assert error is not None and error.refused, text
        assert "names the server" in error.message and "'catalog.log-servers'" in error.message, error.message
    hinted = run(writer, f"SELECT * FROM db.t /*+ OPTIONS({options}) */").snapshot().error
    assert hinted is not None
    assert ["db", "x"] not in rows(writer, "SHOW TABLES IN db")


def test_a_writer_may_name_servers_that_the_catalog_lists_or_its_tables_have(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "w")
    with connect(warehouse=warehouse) as lake:
        for name in ("t", "served"):
            lake.sql(f"CREATE TABLE {name} (id INT) USING lakelog")
    path = Path(warehouse) / "default.db" / "served" / "schema" / "schema-0"
    schema = orjson.loads(path.read_bytes())
    schema["options"]["kafka.bootstrap.servers"] = "first:9092,second:9092"
    path.write_bytes(orjson.dumps(schema))
    listed = {"catalog.log-servers": "Broker:9092, pulsar://other:6650"}
    with Terminal(TerminalConfig(warehouse, role=Privilege.WRITE, catalog_options=listed)) as terminal:
        for address in ("broker:9092", "pulsar://other:6650", "second:9092"):
            error = run(terminal, f"ALTER TABLE default.t SET TBLPROPERTIES ('log-store.address' = '{address}')")
            assert "it has no log" in str(error.snapshot().error), address  # the rule after this one
        error = run(terminal, "ALTER TABLE default.t SET TBLPROPERTIES ('log-store.address' = 'third:9092')")
        assert "'third:9092', which no table of this catalog has" in str(error.snapshot().error)
