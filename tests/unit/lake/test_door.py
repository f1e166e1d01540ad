"""The first minutes of a user: ``connect`` takes a path, names are found, results and values are printable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from lakelog.errors import InvalidRequest, NotInstalled
from lakelog.spark.session.jvm import relevant_lines, start_jvm


class SparkSession:
    """What ``connect`` can see of a session before it is used."""

    conf, sql = None, None


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    opened = lakelog.connect(tmp_path / "warehouse")
    opened.run("create database db")
    opened.run("create table db.t (id int, name string) tblproperties ('primary-key' = 'id', 'bucket' = '1')")
    opened.write(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "name": ["a", "b", None]}), "db.t")
    return opened


@pytest.mark.parametrize("place", ["./there", "there", Path("there")], ids=repr)
def test_connect_takes_a_path_first(place: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for opened in (lakelog.connect(place), lakelog.connect(warehouse=place), lakelog.connect(None, place)):
        opened.sql("create database if not exists db")
        assert opened.list_databases() == ["db"]
    assert (tmp_path / "there" / "db.db").is_dir()


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    opened = lakelog.connect("~/warehouse")
    opened.add_catalog("other", "~/other")
    opened.run("create database db; create database other.db")
    assert (tmp_path / "warehouse" / "db.db").is_dir()
    assert (tmp_path / "other" / "db.db").is_dir()


@pytest.mark.parametrize("call", [lambda s: lakelog.connect(s, "w"), lambda s: lakelog.connect("w", s)])
def test_a_session_may_come_first_or_second(call, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr("lakelog.lake.opening.Lake", lambda *given: made.append(given))
    session = SparkSession()
    call(session)
    lakelog.connect(session, warehouse="w")
    lakelog.connect("w", spark=session)
    assert [given[:2] for given in made] == [("w", session)] * 3


@pytest.mark.parametrize(
    ("given", "text"),
    [((3,), "not int: write lakelog.connect"), (("a", "b"), "two values for 'warehouse'"), ((b"x",), "not bytes")],
)
def test_anything_else_is_an_error_that_shows_the_call(given: tuple[object, ...], text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        lakelog.connect(*given)  # type: ignore[call-overload]


def test_dir_shows_what_the_package_has() -> None:
    assert {"connect", "attach", "Lake", "Table", "metrics", "errors"} <= set(dir(lakelog))
    assert [name for name in dir(lakelog) if not hasattr(lakelog, name)] == []
    assert not {"Any", "Registry", "TYPE_CHECKING"} & set(dir(lakelog))


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("show tables in db", 1),
        ("describe db.t", 2),
        ("create database if not exists db", 0),
        ("call sys.expire_snapshots(table => 'db.t', retain_max => 1)", 1),
        ("call sys.compact('db.t')", 1),
        ("", 0),
    ],
)
def test_every_statement_has_the_same_methods(
    lake: Lake, statement: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lake.sql(statement)
    assert (found.to_arrow().num_rows, len(found.to_polars()), len(found.to_pandas())) == (rows, rows, rows)
    found.show()
    assert (len(capsys.readouterr().out.splitlines()) > rows) == (rows > 0)
    assert isinstance(found.to_polars(), pl.DataFrame)


def test_show_prints_rows_as_spark_does(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    found = lake.sql("describe db.t")
    found.show(1)
    assert capsys.readouterr().out.splitlines() == [
        "+--------+---------+-------+",
        "|col_name|data_type|comment|",
        "+--------+---------+-------+",
        "|      id|      int|       |",
        "+--------+---------+-------+",
        "only the first 1 of 2 rows",
        "",
    ]
    assert pa.table(found) == found.to_arrow() == found
    assert found.num_rows == len(found) == 2
    assert found.column(0) == found[0]


def test_values_show_what_a_person_asks_of_them(lake: Lake) -> None:
    table = lake.table("db.t")
    table.create_tag("v1")
    for shown, parts in {
        repr(lake): ["Lake(", "warehouse", "Spark: not started"],
        lake._repr_html_(): ["db.t", "<table>"],
        repr(table.scan(["id"], "id > 1").limit(2)): ["Scan(db.t", "columns: id", "filter", "limit: 2"],
        repr(table.scan().plan()): ["Split(bucket 0: 1 files, 3 rows"],
        repr(table.latest_snapshot()): ["Snapshot(1, APPEND", "3 records, +3"],
        repr(table.compact()): ["CompactionSummary(", "files", "bytes"],
        repr(table.health()): ["TableHealth(db.t: score"],
        repr(table.tags()): ["Tag('v1', Snapshot(1"],
        repr(list(table.stream_plan())): ["StreamPlan(db.t: snapshot"],
        lake.sql("show tables in db")._repr_html_(): ["<td>t</td>"],
        repr(lake.sql("show tables in db")): ["tableName"],
    }.items():
        assert [part for part in parts if part not in shown] == [], shown
        assert len(shown) < 500


def test_start_up_messages_of_spark_are_not_shown() -> None:
    noise = [
        "WARNING: Using incubator modules: jdk.incubator.vector\n",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties\n",
        'Setting default log level to "WARN".\n',
        "26/11/25 04:00:00 WARN Utils: Your hostname, x, resolves to a loopback address\n",
        "26/11/25 04:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library\n",
    ]
    end = ["Traceback (most recent call last):\n", '  File "/x/pyspark/daemon.py", line 1, in f\n', "    write()\n"]
    other = ["Traceback (most recent call last):\n", '  File "/x/user.py", line 1, in f\n', "ValueError: x\n"]
    lines = [*noise, "ERROR a real one\n", *end, "BrokenPipeError: [Errno 32]\n", *other, *end, "KeyError: 1\n", *end]
    assert list(relevant_lines(lines)) == ["ERROR a real one\n", *other, *end, "KeyError: 1\n", *end]


def test_the_mixed_tracebacks_of_two_workers_that_end_are_not_shown() -> None:
    start, file = "Traceback (most recent call last):\n", '  File "/x/pyspark/daemon.py", line 1, in f\n'
    broken, other = "BrokenPipeError: [Errno 32] Broken pipe\n", "ValueError: x\n"
    assert list(relevant_lines([start, start, file, file, broken, file, broken, "after\n"])) == ["after\n"]
    assert list(relevant_lines([start, file, start, file, broken, broken, "after\n"])) == ["after\n"]
    mixed = [start, start, file, file, broken, other]
    assert list(relevant_lines(mixed)) == mixed


def test_without_java_every_way_to_spark_says_how_to_install_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for way in (
        lambda: start_jvm({}),
        lambda: lake.spark,
        lambda: lake.sql("select hash(id) as h from db.t"),
        lambda: lake.read_stream("db.t"),
    ):
        with pytest.raises(NotInstalled, match=r"Java 17 or newer: none was found in JAVA_HOME=/nowhere\. Run: "):
            way()


_USER_SCRIPT = """\
import lakelog

lake = lakelog.connect("./warehouse")
table = lake.table("db.t")
rows = table.scan(colums=["id"]).to_arrow()
other = lake.tabel("db.t")
reveal_type(lake)
reveal_type(table)
reveal_type(lake.sql("select 1"))
reveal_type(lake.spark)
reveal_type(table.history())
table.scan(filter=3)
lake.sql("select 1").show(3)
"""


@pytest.mark.slow
def test_mypy_finds_the_typos_of_a_users_script(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(_USER_SCRIPT)
    source = Path(lakelog.__file__).parent
    assert (source / "py.typed").exists()
    (tmp_path / "lakelog").symlink_to(source)  # not installed in the environment of the tests
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'user.py:5: error: Unexpected keyword argument "colums"' in done.stdout
    assert 'user.py:6: error: "Lake" has no attribute "tabel"' in done.stdout
    assert 'user.py:12: error: Argument "filter" to "scan" of "TableReading" has incompatible type "int"' in done.stdout
    rows = ("lakelog.lake.output.result.Result", "lakelog.lake.output.result.TableResult")
    for kind in ("lakelog.lake.lake.Lake", "lakelog.lake.table.table.Table", "pyspark.sql.session.SparkSession", *rows):
        assert f'Revealed type is "{kind}"' in done.stdout
    assert "Found 3 errors in 1 file" in done.stdout
