"""lakelog without PySpark, or with one that it does not support: what works, and one clear error for the rest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lakelog

SOURCE = str(Path(lakelog.__file__).parents[1])

_WORKS = """\
import lakelog, polars as pl
lake = lakelog.connect("warehouse")
table = lake.create_table("db.t", {"id": "bigint", "name": "string"}, primary_key="id",
                          options={"log-store.enabled": True})
lake.write(pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}), "db.t")
with table.writer() as writer:
    writer.write(pl.DataFrame({"id": [2], "name": ["c"], "_row_kind": ["-D"]}))
print(table.scan(filter="id < 3").to_polars().rows(), sum(b.num_rows for b in table.tail("earliest", stop="latest")))
lake.sql("alter table db.t add column n int")
lake.sql("call sys.create_tag('db.t', 'v1')")
table.compact()
lake.sql("show tables in db").show()
"""
_ENTRANCES = """\
import lakelog, polars as pl
lake = lakelog.connect("warehouse")
lake.sql("create table db.t (id int, name string, primary key (id)) using lakelog")
lake.sql("insert into db.t values (1, 'a'), (2, 'b'), (3, 'c')")
lake.sql("update db.t set name = 'B' where id = 2")
lake.sql("delete from db.t where id = 3")
lake.sql("select id, name from db.t where id > 1").show()
table = lake.table("db.t")
rows = pl.DataFrame({"id": [1]})
ways = {
    "spark": lambda: lake.spark,
    "select": lambda: lake.sql("select id, hash(name) from db.t"),
    "stream": lambda: lake.read_stream("db.t"),
    "to_spark": lambda: table.to_spark(),
    "attach": lambda: lake.attach(),
    "join": lambda: lake.lookup_join(rows, "db.t", "id"),
    "source": lambda: __import__("pyspark_lakelog"),
}
for name, way in ways.items():
    try:
        way()
    except lakelog.errors.NotInstalled as told:
        print(name, told)
    else:
        print(name, "nothing")
"""


def run(script: str, tmp_path: Path, *first: Path) -> str:
    """What a script prints in a process that finds these directories before all others."""
    path = [str(place) for place in first] + [SOURCE]
    code = f"import sys; sys.path[:0] = {path!r}\n{script}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def no_spark(tmp_path: Path) -> Path:
    """A directory whose PySpark cannot be imported, as if there were none."""
    place = tmp_path / "none"
    (place / "pyspark").mkdir(parents=True)
    for package in ("pyspark", "py4j"):
        (place / package).mkdir(exist_ok=True)
        (place / package / "__init__.py").write_text(f"raise ModuleNotFoundError('no', name='{package}')")
    return place


def old_spark(place: Path, version: str) -> Path:
    (place / "pyspark").mkdir(parents=True)
    (place / "pyspark" / "__init__.py").write_text("")
    (place / "pyspark" / "version.py").write_text(f"__version__ = '{version}'")
    return place


def test_python_reads_writes_and_maintains_tables_without_pyspark(tmp_path: Path, no_spark: Path) -> None:
    printed = run(_WORKS, tmp_path, no_spark)
    assert printed.splitlines()[0] == "[(1, 'a')] 3"
    assert "|       db|        t|" in printed


@pytest.mark.parametrize("version", [None, "3.4.4", "4.4.0", "in a zip"])
def test_simple_statements_run_beside_any_pyspark_and_every_way_to_it_says_what_to_install(
    tmp_path: Path, no_spark: Path, version: str | None
) -> None:
    place, told = no_spark, "which is not installed: pip install 'lakelog[spark]'"
    if version is not None:
        found = "3.4.4" if version == "in a zip" else version
        place = old_spark(tmp_path / "old", found)
        told = f"PySpark {found} is installed, and lakelog's Spark parts need >=3.5,<4.4: pip install 'lakelog[spark]'"
    if version == "in a zip":  # as spark-submit has it
        place = Path(shutil.make_archive(str(tmp_path / "pyspark"), "zip", place))
    *shown, _, _, _, _, _, _, _ = lines = run(_ENTRANCES, tmp_path, place).splitlines()
    assert "| 2|   B|" in shown
    assert [line for line in lines[-7:] if told not in line] == []
    assert version is None or all("lake.table(…).scan()" in line for line in lines[-7:])


def test_the_command_line_says_the_same(tmp_path: Path, no_spark: Path) -> None:
    script = "from lakelog.cli.main import main; sys.argv[1:] = ['sql', 'select hash(1) as n']; main()"
    code = f"import sys; sys.path[:0] = {[str(no_spark), SOURCE]!r}\n{script}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: hash() needs Spark, which is not installed: pip install 'lakelog[spark]'")


@pytest.mark.parametrize("version", [None, "3.4.4"])
def test_the_doctor_runs_all_its_checks(tmp_path: Path, no_spark: Path, version: str | None) -> None:
    place = no_spark if version is None else old_spark(tmp_path / "old", version)
    script = "from lakelog.cli.main import main; sys.argv[1:] = ['doctor', '--format', 'csv']; main()"
    code = f"import sys; sys.path[:0] = {[str(place), SOURCE]!r}\n{script}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "\nstorage,pass," in done.stdout and "\ncatalog,pass," in done.stdout, done.stderr
    assert not any(line.startswith("session,") for line in done.stdout.splitlines())
