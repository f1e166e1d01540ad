"""The doctor against what is broken, and against what works."""

from __future__ import annotations

import re
import socket
import sys
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakelog
from lakelog.cli.tables import health
from lakelog.errors import InvalidRequest
from lakelog.io import clock
from lakelog.io.storage.file_io import DiskSpace, FileIO, FileStatus
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake import Lake
from lakelog.logstore import clients as lakelog_clients
from lakelog.options import environment
from lakelog.options import metrics as m
from lakelog.service.doctor import CHECKS
from lakelog.service.doctor.check import CheckContext, Finding
from lakelog.service.doctor.checks import environment as extras
from lakelog.service.doctor.run import examine
from lakelog.service.metrics.table_gauges import health_samples
from lakelog.table.health import score
from lakelog.table.health.health import TableHealth
from lakelog.table.health.score import FINDINGS

ROOT = Path(__file__).parents[3]


def look(name: str, around: CheckContext) -> list[Finding]:
    return list(examine(around, [name]))


def worst(findings: list[Finding]) -> Finding:
    return max(findings, key=lambda finding: ("pass", "warn", "fail").index(finding.outcome))


@pytest.fixture
def around(tmp_path: Path) -> CheckContext:
    return CheckContext(str(tmp_path / "warehouse"))


def test_where_all_is_well_nothing_fails_and_nothing_stays(around: CheckContext, tmp_path: Path) -> None:
    findings = list(examine(around, [name for name in CHECKS if name != "spark"]))
    assert [finding for finding in findings if finding.outcome == "fail"] == []
    assert {"java", "clock"} <= {finding.check for finding in findings}
    assert not (tmp_path / "warehouse").exists()


def test_every_finding_that_does_not_pass_says_what_to_do(around: CheckContext) -> None:
    broken = CheckContext(around.warehouse, log="kafka")
    for finding in examine(broken):
        assert bool(finding.what_to_do) is (finding.outcome != "pass"), finding


def test_an_unknown_check_is_refused(around: CheckContext) -> None:
    with pytest.raises(InvalidRequest, match="unknown check 'jav', did you mean 'java'"):
        look("jav", around)


def test_a_check_that_breaks_is_a_finding_and_the_next_one_runs(
    around: CheckContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.service.doctor.checks.environment.java_program", lambda: 1 / 0)
    findings = list(examine(around, ["java", "storage"]))
    assert findings[0].outcome == "fail"
    assert findings[0].found == "the check itself failed: ZeroDivisionError: division by zero"
    assert findings[1].check == "storage"


# Java


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "outcome", "told"),
    [
        ("echo 'Error: could not find libjvm.so' >&2; exit 1", "fail", "is broken: Error: could not find libjvm.so"),
        ("echo 'openjdk version \"11.0.2\" 2019' >&2", "fail", "Java 11.0.2 at .*: Spark needs 17 or newer"),
        ("exit 0", "fail", "is broken: no output"),
        ("", "fail", "no Java in JAVA_HOME="),
        (
            "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2; echo 'openjdk version \"21.0.1\"' >&2",
            "pass",
            "^Java 21.0.1 at ",
        ),
    ],
)
def test_a_java_is_new_enough_or_there_is_the_command_that_installs_one(
    around: CheckContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, outcome: str, told: str
) -> None:
    if script:
        program(tmp_path / "java" / "bin" / "java", script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    (finding,) = look("java", around)
    assert finding.outcome == outcome
    assert re.search(told, finding.found), finding.found
    assert outcome == "pass" or "jdk" in finding.what_to_do.lower()


# Spark


def test_the_pyspark_that_is_asked_for_is_the_one_that_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (wanted,) = project["project"]["optional-dependencies"]["spark"]
    (low, high) = (".".join(map(str, version)) for version in (environment.PYSPARK_OLDEST, environment.PYSPARK_BELOW))
    assert wanted == f"pyspark>={low}.0,<{high}"


def test_an_old_pyspark_fails(around: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "3.4.4")
    finding = look("spark", around)[0]
    assert (finding.outcome, finding.what_to_do) == ("fail", "pip install 'pyspark>=3.5,<4.4'")


def test_another_spark_in_spark_home_fails(
    around: CheckContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "RELEASE").write_text("Spark 3.5.1 built for Hadoop 3.3.4\n")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    finding = worst(look("spark", around))
    assert finding.outcome == "fail"
    assert "is Spark 3.5.1, PySpark is" in finding.found


def test_workers_with_a_python_without_lakelog_fail(
    around: CheckContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(tmp_path / "python", "echo \"ModuleNotFoundError: No module named 'lakelog'\" >&2; exit 1")
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    finding = worst(look("spark", around))
    assert finding.outcome == "fail"
    assert "which has no lakelog: ModuleNotFoundError" in finding.found


def test_workers_with_another_python_fail(
    around: CheckContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(program(tmp_path / "python", "echo 3.8 0.1.0")))
    finding = worst(look("spark", around))
    assert "Spark's workers run Python 3.8" in finding.found
    assert finding.what_to_do.startswith("export PYSPARK_PYTHON=")


class Settings:
    """What the check uses of a session."""

    version = "4.3.0"

    def __init__(self, given: Mapping[str, str]) -> None:
        self.conf = self
        self._given = given

    def get(self, key: str, default: str | None) -> str | None:
        return self._given.get(key, default)


def test_the_doctor_lists_missing_settings_of_an_existing_session_and_their_cost(around: CheckContext) -> None:
    from lakelog.spark.session.session import STREAM_SETTINGS

    lacking = {k: v for k, v in STREAM_SETTINGS.items() if k != "spark.python.unix.domain.socket.enabled"}
    (finding,) = look("session", CheckContext(around.warehouse, session=Settings(lacking)))
    assert finding.outcome == "warn"
    assert "spark.python.unix.domain.socket.enabled is not set: each Python task pays about 40 ms" in finding.found
    assert finding.what_to_do == "start the session with --conf spark.python.unix.domain.socket.enabled=true"
    (finding,) = look("session", CheckContext(around.warehouse, session=Settings(STREAM_SETTINGS)))
    assert finding.outcome == "pass"
    everything = look("session", CheckContext(around.warehouse, session=Settings({})))
    assert len(everything) == len(STREAM_SETTINGS)


# extras


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["project"]["optional-dependencies"]
    assert set(extras.extras()) == set(declared)
    for extra, packages in declared.items():
        wanted = {name for one in packages if (name := re.split(r"[\[<>=]", one)[0]) != "lakelog"}
        assert wanted <= set(extras.required("lakelog", extra)), extra
    assert {"pyspark", "grpcio"} <= set(extras.required("lakelog", "connect"))


def test_an_extra_that_is_needed_and_missing_fails(around: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)  # an import of it fails
    monkeypatch.delitem(sys.modules, "lakelog.io.storage.object_store", raising=False)
    found = look("extras", CheckContext("s3://bucket/warehouse"))[0]
    assert (found.outcome, found.what_to_do) == ("fail", "pip install 'lakelog[s3]'")
    assert found.found == "storage 's3' needs an extra that is missing"
    assert worst(look("extras", around)).outcome == "pass"


def test_extras_whose_packages_are_missing_are_listed(around: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    real = extras.metadata.version

    def version(package: str) -> str:
        if package in ("obstore", "grpcio", "deltalake", "pyiceberg"):
            raise extras.metadata.PackageNotFoundError
        return real(package)

    monkeypatch.setattr(extras.metadata, "version", version)
    (found,) = look("extras", around)
    assert "rest (urllib3 " in found.found and found.found.endswith("; not installed: connect, delta, iceberg, s3")


# storage


def test_a_warehouse_below_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    findings = look("storage", CheckContext(str(tmp_path / "file" / "warehouse")))
    assert findings[0].outcome == "fail"
    assert findings[0].found.startswith(f"'{tmp_path}/file/warehouse' cannot be used: ")
    assert "check that the path is a directory" in findings[0].what_to_do


def test_a_warehouse_of_an_unknown_kind_fails() -> None:
    findings = look("storage", CheckContext("ftp://host/warehouse"))
    assert findings[0].outcome == "fail"
    assert "has scheme 'ftp'" in findings[0].found


class Overwriting(LocalFileIO):
    """A storage without create-if-absent."""

    def create(self, path: str, data: bytes) -> bool:
        self.write(path, data)
        return True


class Full(LocalFileIO):
    def space(self, path: str) -> DiskSpace | None:
        return DiskSpace(1 << 20, 1 << 40)


class Behind(LocalFileIO):
    """A storage whose clock is seven seconds behind."""

    def list(self, path: str) -> list[FileStatus]:
        return [FileStatus(s.path, s.size, s.mtime_ms - 7_000, s.is_dir) for s in super().list(path)]


def with_storage(monkeypatch: pytest.MonkeyPatch, io: FileIO) -> None:
    monkeypatch.setattr("lakelog.service.doctor.check.file_io_for", lambda *_: io)


def test_a_storage_that_overwrites_fails(around: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with_storage(monkeypatch, Overwriting())
    finding = look("storage", around)[0]
    assert finding.outcome == "fail"
    assert finding.found.endswith("a file was created twice: the storage has no create-if-absent")
    assert "lock" in finding.what_to_do


def test_a_full_disk_fails(around: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with_storage(monkeypatch, Full())
    finding = worst(look("storage", around))
    assert (finding.outcome, "has 1.0 MB of free space" in finding.found) == ("fail", True)


# clocks


@pytest.mark.parametrize(
    ("ahead_ms", "outcome", "told"),
    [
        (0, "pass", "this machine and the storage's clock agree"),
        (20_000, "warn", "behind this machine's"),
        (-20_000, "warn", "ahead of this machine's"),
        (3_600_000, "fail", "leases and retention depend on these clocks"),
    ],
)
def test_a_wrong_clock_is_found(
    around: CheckContext, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, outcome: str, told: str
) -> None:
    real = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: real() + ahead_ms)
    (finding,) = look("clock", around)
    assert finding.outcome == outcome
    assert told in finding.found


def test_a_slow_clock_of_the_storage_is_found(around: CheckContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with_storage(monkeypatch, Behind())
    (finding,) = look("clock", around)
    assert finding.outcome == "warn"
    assert finding.found.startswith("the storage's clock is 6 s behind")  # whole seconds of an object store are allowed


def test_a_snapshot_of_the_future_reveals_the_clock_of_another_writer(
    around: CheckContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lakelog.connect(warehouse=around.warehouse)
    lake.sql("create database db; create table db.t (id int, primary key (id))")
    with monkeypatch.context() as patched:
        real = clock.now_ms
        patched.setattr("lakelog.filestore.commit.snapshot_builder.clock.now_ms", lambda: real() + 600_000)
        lake.table("db.t").write(pa.table({"id": pa.array([1], pa.int32())}))
    findings = look("clock", around)
    assert [finding.outcome for finding in findings] == ["pass", "fail"]
    assert "the clock of the newest snapshot's writer is" in findings[1].found


# catalog, log, tables


def test_a_catalog_that_does_not_answer_fails(around: CheckContext, tmp_path: Path) -> None:
    options = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/none/names.db"}
    (finding,) = look("catalog", CheckContext(around.warehouse, catalog_options=options))
    assert finding.outcome == "fail"
    assert finding.found == "the catalog does not answer"


@pytest.mark.slow
def test_a_broker_behind_a_closed_port_fails(around: CheckContext) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        (finding,) = look("log", CheckContext(around.warehouse, log="kafka", address=address))
    assert finding.outcome == "fail"
    assert f"Kafka at {address} cannot be reached" in finding.what_to_do
    (finding,) = look("log", CheckContext(around.warehouse, log="kafka"))
    assert finding.what_to_do == "give --address: the bootstrap servers, like 'localhost:9092'"


def test_an_embedded_log_is_tried_where_the_tables_lie(around: CheckContext) -> None:
    (finding,) = [one for one in look("log", around) if one.outcome == "pass"]
    assert finding.found.startswith("embedded log: one append ")
    (finding,) = look("log", CheckContext("s3://bucket/warehouse", log="embedded"))
    assert (finding.outcome, "cannot have an embedded log" in finding.found) == ("warn", True)


def test_tables_are_reported_with_their_needs(around: CheckContext) -> None:
    lake = lakelog.connect(warehouse=around.warehouse)
    lake.sql(
        "create database db; create table db.well (id int, primary key (id));"
        "create table db.ill (id int, primary key (id)) tblproperties ('write-only' = 'true')"
    )
    for number in range(6):
        lake.table("db.ill").write(pa.table({"id": pa.array([number], pa.int32())}))
    findings = look("tables", around)
    assert findings[-1].found == "1 of 2 tables are healthy"
    assert findings[0].outcome == "warn"
    assert findings[0].found.startswith("table db.ill: ")
    assert "lakelog compact db.ill" in findings[0].what_to_do


@pytest.mark.parametrize("broken", ["schema/schema-0", "lakelog/log.sqlite", "snapshot/snapshot-1"])
def test_a_table_that_cannot_be_read_or_has_lost_its_log_fails_in_every_view(around: CheckContext, broken: str) -> None:
    with lakelog.connect(warehouse=around.warehouse) as lake:
        for name in ("good", "ill"):
            lake.sql(f"create table db.{name} (id int, primary key (id)) with ('log-store.enabled' = 'true')")
            lake.write(pa.table({"id": pa.array([1], pa.int32())}), f"db.{name}")
    lakelog_clients.close_clients()
    Path(around.warehouse, "db.db", "ill", broken).write_bytes(b"{" * 200)
    *problems, summary = look("tables", around)
    assert [one.found.startswith("table db.ill: ") and one.outcome == "fail" for one in problems] == [True]
    assert (summary.found, summary.outcome) == ("1 of 2 tables are healthy", "pass")
    for table, code in (("db.good", 0), ("db.ill", 1)):
        assert CliRunner().invoke(health, [table, "--warehouse", around.warehouse]).exit_code == code


@pytest.mark.parametrize("kind", FINDINGS)
def test_every_kind_of_finding_is_a_line_of_the_doctor_and_a_sample_of_the_metrics(
    around: CheckContext, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with lakelog.connect(warehouse=around.warehouse) as lake:
        lake.sql("create table db.a (id int); create table db.b (id int)")
    found = TableHealth("db.a", 20, (), (), (), None, (score.Finding(kind, "why", "what to do"),))
    monkeypatch.setattr(Lake, "health", lambda *_: found)
    *problems, summary = look("tables", around)
    assert [(one.found.rpartition(": ")[2], one.what_to_do) for one in problems] == [("why", "what to do")], "once"
    assert summary.found == "0 of 2 tables are healthy"
    assert [one.labels for one in health_samples(found) if one.metric is m.FINDINGS] == [("db.a", kind)]


def test_no_finding_shows_a_secret(around: CheckContext) -> None:
    secret = {"s3.secret-key": "hunter2", "s3.access-key": "hunter2", "s3.endpoint": "http://127.0.0.1:1"}
    options = {"catalog.type": "sql", "catalog.uri": "postgresql+psycopg://me:hunter2@127.0.0.1:1/names"}
    properties = {"sasl.password": "hunter2", "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"}
    bad = CheckContext(around.warehouse, secret, options, "kafka", "127.0.0.1:1", properties)
    text = "\n".join(f"{one.found} {one.what_to_do}" for one in examine(bad, ["extras", "catalog", "log"]))
    assert "fail" in {one.outcome for one in examine(bad, ["catalog"])}
    assert "hunter2" not in text
    assert "hunter2" not in repr(bad)
