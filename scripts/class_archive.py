"""Archives the classes that Spark's JVM loads, for the tests: those that start with it take half the CPU seconds.

usage: class_archive.py FILE

Measured on two cores: 22 → 11 s of CPU for a session and its first two queries, and the tests start dozens. The JVM
itself checks that an archive fits it and its jars, and goes on without one that does not (JEP 350); ``tests/conftest``
names the file to all JVMs. Without an archive, as with a JVM that cannot make one, the tests only take longer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

import lakelog

_WRITES_S = 300
STATEMENTS = """
create database db;
create table db.t (id bigint, name string, at timestamp, primary key (id)) tblproperties ('log-store.enabled' = 'true');
insert into db.t select id, cast(id as string), current_timestamp() from range(1000);
update db.t set name = 'x' where id < 10;
merge into db.t using (select id, 'y' as name from range(990, 1010)) s on t.id = s.id
  when matched then update set name = s.name when not matched then insert (id, name) values (s.id, s.name);
select name, count(*), max(at) from db.t where id % 2 = 0 group by name order by name limit 5;
select a.id from db.t a join db.t b on a.id = b.id where a.name like '1%';
show tables in db
"""


def train(warehouse: Path, archive: Path) -> None:
    """Runs what most tests run, in a JVM that writes its classes into the file when it ends."""
    settings = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable"}
    with lakelog.connect(warehouse=str(warehouse / "warehouse"), settings=settings) as lake:
        lake.sql(STATEMENTS, engine="spark")
        lake.spark.read.format("lakelog").load(str(warehouse / "warehouse" / "db.db" / "t")).collect()
        read = lake.spark.readStream.format("lakelog").option("read.mode", "log")
        stream = read.load(str(warehouse / "warehouse" / "db.db" / "t")).writeStream.format("memory").queryName("seen")
        stream.trigger(availableNow=True).start().awaitTermination()
        gateway = SparkContext._gateway
        lake.spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # what Spark's JVM ends with, and writes the file then
    gateway.proc.wait(_WRITES_S)


def main() -> None:
    """Writes the whole file, or none; an empty one for a JVM that makes no archive, so that make does not try again."""
    target = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        made = Path(directory) / "classes.jsa"
        train(Path(directory), made)
        if not made.exists():
            sys.stderr.write("this JVM makes no class archive, so the tests take longer\n")
            made.touch()
        made.replace(target)


if __name__ == "__main__":
    main()
