"""A terminal whose statements need no Spark: a real worker, its rights, its life and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import psutil
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, NotFound
from lakelog.service.terminal import AuditLog, Limits, Right, Terminal, TerminalConfig
from terminals import done, rows, run, until

TABLE = "CREATE TABLE db.t (id INT, name STRING, PRIMARY KEY (id)) USING lakelog"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("terminal") / "warehouse")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    return AuditLog(tmp_path_factory.mktemp("audit") / "statements.jsonl")


@pytest.fixture(scope="module")
def admin(warehouse: str, audit: AuditLog) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(warehouse, role=Right.ADMIN, user="ann"), audit) as terminal:
        done(terminal, f"CREATE DATABASE IF NOT EXISTS db; {TABLE}")
        yield terminal


@pytest.fixture(scope="module")
def writer(warehouse: str, admin: Terminal) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(warehouse, role=Right.WRITE, user="will")) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def reader(warehouse: str, admin: Terminal) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(warehouse, role=Right.READ, user="rita")) as terminal:
        yield terminal


def test_statements_run_in_a_process_of_their_own_and_the_last_needs_no_semicolon(admin: Terminal) -> None:
    execution = done(admin, "USE db;\nSHOW TABLES;\n  DESCRIBE t")
    use, show, describe = execution.snapshot().statements
    assert [use.state, show.state, describe.state] == ["done"] * 3
    assert [(s.line, s.column) for s in (use, show, describe)] == [(1, 1), (2, 1), (3, 3)]
    assert [c["name"] for c in describe.columns] == ["col_name", "data_type", "comment"]
    assert execution.rows(2) == [["id", "int", ""], ["name", "string", ""]]
    assert execution.rows(1)[0][1] == "t"
    assert (execution.catalog, execution.database) == ("lakelog", "db")
    state = admin.state()
    assert state.process == "idle"
    assert state.pid != os.getpid() and psutil.pid_exists(state.pid or 0)


def test_the_state_of_an_execution_is_plain_json(admin: Terminal) -> None:
    found = orjson.loads(orjson.dumps(asdict(done(admin, "SHOW TABLES IN db").snapshot())))
    assert found["state"] == "done"
    assert found["statements"][0]["columns"][0] == {"name": "namespace", "type": "string"}


def test_events_are_read_again_from_any_place(admin: Terminal) -> None:
    execution = done(admin, "SHOW TABLES IN db; DESCRIBE db.t")
    events = list(execution.events())
    assert [e.sequence for e in events] == sorted(e.sequence for e in events)
    assert [e.kind for e in events if e.statement is None] == ["started", "parsed", "ended"]
    assert [e.kind for e in events if e.statement == 1] == ["started", "columns", "rows", "ended"]
    middle = events[3].sequence
    assert list(execution.events(after=middle)) == events[4:]
    assert list(execution.events(after=events[-1].sequence, wait_s=0)) == []
    assert execution.snapshot().sequence == events[-1].sequence


def test_an_error_says_where_it_is_in_the_whole_text(admin: Terminal) -> None:
    execution = run(admin, "SHOW TABLES IN db;\n\nDROP TABLE db.t PURGE AND SO ON")
    error = execution.snapshot().error
    assert execution.state == "failed" and error is not None
    assert (error.kind, error.line) == ("UnsupportedStatement", 3)
    assert error.column == len("DROP TABLE db.t PURGE ") + 1
    assert execution.snapshot().statements == ()  # nothing has run

    execution = run(admin, "SHOW TABLES IN db;\n  DESCRIBE db.missing; SHOW CATALOGS")
    first, second, third = execution.snapshot().statements
    assert (first.state, second.state, third.state) == ("done", "failed", "skipped")
    assert second.error is not None
    assert (second.error.kind, second.error.line, second.error.column) == ("NotFound", 2, 12)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_statement_is_an_error(admin: Terminal, text: str) -> None:
    with pytest.raises(InvalidRequest, match="no statement"):
        admin.submit(text)


def test_a_text_of_comments_alone_says_that_it_has_no_statement(admin: Terminal) -> None:
    execution = run(admin, "-- nothing\n;;")
    assert execution.state == "failed"
    assert "no statement" in str(execution.snapshot().error)


def test_catalog_and_database_are_those_of_the_call(admin: Terminal) -> None:
    assert done(admin, "DESCRIBE t", catalog="lakelog", database="db").rows(0)
    failed = run(admin, "DESCRIBE t", database="nowhere").snapshot()
    assert failed.error is not None and failed.error.kind == "NotFound"


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
def test_a_reader_may_look(reader: Terminal, text: str) -> None:
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
    assert error is not None and error.refused and "making one needs the role admin" in error.message
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
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED_OPTIONS)
def test_options_that_name_files_programs_or_classes_are_refused(writer: Terminal, text: str) -> None:
    execution = run(writer, text)
    error = execution.snapshot().error
    assert error is not None and error.refused, execution.snapshot()
    assert ["db", "x", "false"] not in rows(writer, "SHOW TABLES IN db")


REFUSED_CATALOGS = (
    "'warehouse' = '/etc'",
    "'warehouse' = 'relative/place'",
    "'warehouse' = 'FILE:///etc'",
    "'warehouse' = 's3://b/w', 'catalog.type' = 'sql', 'catalog.uri' = 'sqlite:////tmp/x.db'",
    "'warehouse' = 's3://b/w', 'catalog.type' = 'sql', 'catalog.uri' = 'sqlite+pysqlite:///file:/etc/passwd?uri=true'",
    "'warehouse' = 's3://b/w', 'storage.lock' = 'file'",
    "'warehouse' = 's3://b/w', 'storage.lock' = 'sql', 'storage.lock.address' = 'sqlite:////tmp/x.db'",
    "'warehouse' = 'hdfs://h/w', 'hadoop.hadoop.security.key.provider.path' = 'x'",
)


@pytest.mark.parametrize("options", REFUSED_CATALOGS)
def test_a_catalog_on_files_of_the_server_is_refused_also_to_an_admin(admin: Terminal, options: str) -> None:
    error = run(admin, f"CREATE CATALOG c WITH ({options})").snapshot().error
    assert error is not None and error.refused, error
    assert "--allow-local-files" in error.message
    assert ["c"] not in rows(admin, "SHOW CATALOGS")


def test_an_admin_may_open_a_directory_where_the_server_allows_it(warehouse: str, tmp_path: Path) -> None:
    config = TerminalConfig(warehouse, role=Right.ADMIN, allow_local_files=True)
    with Terminal(config) as terminal:
        done(terminal, f"CREATE CATALOG c WITH ('warehouse' = '{tmp_path}')")
    with Terminal(replace(config, role=Right.WRITE)) as terminal:
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
    error = run(writer, f"ALTER TABLE {table_with_secrets} SET TBLPROPERTIES ('log-store.address' = 'evil:9')")
    assert "would be sent there" in str(error.snapshot().error)
    with connect(warehouse=warehouse) as lake:
        text = f"ALTER TABLE {table_with_secrets} UNSET TBLPROPERTIES ('dlf.token')"
        assert lake.sql(text) is not None
    run(writer, f"CREATE TABLE db.taken LIKE {table_with_secrets}")
    taken = Path(warehouse) / "db.db" / "taken" / "schema" / "schema-0"
    assert not taken.exists() or "hunter" not in taken.read_text()


def test_every_statement_is_in_the_audit_log_and_no_secret_is(admin: Terminal, audit: AuditLog) -> None:
    run(admin, "SHOW CATALOGS; CREATE CATALOG c WITH ('warehouse' = 's3://b/w', 's3.secret-key' = 'hunter2\nhunter3')")
    run(admin, "CREATE CATALOG d WITH ('warehouse' = '/etc', 'catalog.token' = 'hunter4')")
    run(admin, "SHOW TABLES 'password' = 'hunter5'")
    entries = audit.newest(4)[::-1]
    assert [(e.user, e.role, e.outcome) for e in entries[:1]] == [("ann", "admin", "done")]
    assert entries[0].text == "SHOW CATALOGS" and entries[0].rows == 1 and entries[0].duration_ms is not None
    assert (entries[2].outcome, entries[2].error) == ("refused", "NotAllowed")
    assert entries[3].outcome == "failed"
    assert "hunter" not in audit.path.read_text()
    assert audit.path.stat().st_mode & 0o777 == 0o600
    assert all(json.loads(line)["time_ms"] > 1_600_000_000_000 for line in audit.path.read_text().splitlines())


def test_a_process_that_is_killed_fails_what_ran_and_the_next_statement_has_a_new_one(warehouse: str) -> None:
    with Terminal(TerminalConfig(warehouse, role=Right.ADMIN)) as terminal:
        done(terminal, "SHOW DATABASES")
        pid = terminal.state().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: terminal.state().process == "none", "the terminal sees the end of its process")
        done(terminal, "SHOW DATABASES")
        assert terminal.state().pid != pid


def test_a_process_above_its_memory_is_ended_and_says_so(warehouse: str) -> None:
    limits = Limits(memory_bytes=1 << 20)
    with Terminal(TerminalConfig(warehouse, limits=limits)) as terminal:
        execution = run(terminal, "SHOW DATABASES")
        error = execution.snapshot().error
        assert execution.state == "failed" and error is not None
        assert error.kind == "MemoryLimit" and "limit of 1 MiB" in error.message
        assert terminal.state().process == "none"


def test_a_process_without_work_ends_and_the_next_statement_starts_one(warehouse: str) -> None:
    with Terminal(TerminalConfig(warehouse, limits=Limits(idle_s=0.3))) as terminal:
        done(terminal, "SHOW DATABASES")
        pid = terminal.state().pid
        until(lambda: terminal.state().process == "none", "the idle process ends")
        assert not psutil.pid_exists(pid or 0)
        done(terminal, "SHOW DATABASES")


def test_what_waits_says_why_and_can_be_cancelled(warehouse: str) -> None:
    with Terminal(TerminalConfig(warehouse, limits=Limits(max_queued=2))) as terminal:
        first = terminal.submit("SHOW DATABASES")
        waiting = [terminal.submit("SHOW DATABASES") for _ in range(2)]
        with pytest.raises(InvalidRequest, match="wait already"):
            terminal.submit("SHOW DATABASES")
        told = waiting[0].snapshot()
        assert told.state == "queued" and told.waiting is not None
        assert told.waiting["why"] == f"text {first.id} runs" and "cancel" in told.waiting["what_to_do"]
        waiting[1].cancel()
        assert waiting[1].wait(1) == "cancelled"
        assert waiting[0].wait(60) == first.wait(60) == "done"


def test_a_long_text_is_refused_and_old_texts_are_forgotten(warehouse: str) -> None:
    limits = Limits(max_text_bytes=100, kept_executions=2)
    with Terminal(TerminalConfig(warehouse, limits=limits)) as terminal:
        with pytest.raises(InvalidRequest, match="more than 100 bytes"):
            terminal.submit(f"SHOW TABLES IN {'ü' * 60}")
        made = [done(terminal, "SHOW DATABASES") for _ in range(3)]
        assert [one.id for one in terminal.executions()] == [made[2].id, made[1].id]
        with pytest.raises(NotFound, match="keeps the newest 2"):
            terminal.execution(made[0].id)


def test_a_closed_terminal_leaves_no_process_and_takes_no_text(warehouse: str) -> None:
    terminal = Terminal(TerminalConfig(warehouse))
    done(terminal, "SHOW DATABASES")
    pid = terminal.state().pid
    terminal.close()
    assert not psutil.pid_exists(pid or 0)
    with pytest.raises(InvalidRequest, match="closed"):
        terminal.submit("SHOW DATABASES")


_PARENT = """
import sys
from lakelog.service.terminal import Terminal, TerminalConfig
terminal = Terminal(TerminalConfig(sys.argv[1]))
terminal.submit("SHOW DATABASES").wait(60)
print(terminal.state().pid, flush=True)
sys.stdin.read()
"""


def test_the_process_ends_with_its_parent_however_that_ends(warehouse: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, warehouse], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None and parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.kill()
    parent.wait()
    until(lambda: not _runs(pid), "the worker ends with its parent", 20)
    parent.stdin.close()
    parent.stdout.close()


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
