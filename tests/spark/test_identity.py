"""Streams whose table is dropped and created again under them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException

from lakelog import connect
from lakelog.lake.table import Table

CREATE = "create table db.{} (id bigint, name string, primary key (id)) {}"
_REFUSED = (  # the second one by tasks of a query that know the table since its start
    r"the checkpoint is at epoch 1, but table db\.t has never been written.*or the table was recreated"
    r"|table db\.t was dropped or renamed, and another table was created in .*Nothing was written"
)
LOG = "tblproperties ('log-store.enabled' = 'true', 'commit.interval' = '200 ms')"


def put(directory: Path, name: str, id_: int) -> None:
    directory.mkdir(exist_ok=True)
    part = directory / f"{name}.part"
    part.write_text(f'{{"id": {id_}, "name": "{name}"}}', encoding="utf-8")
    part.rename(directory / f"{name}.json")


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def logged(table: Table) -> int:
    return sum(part.num_rows for part in table.log_records())


@pytest.mark.parametrize("log", [LOG, ""], ids=["log", "no log"])
def test_a_stream_writes_nothing_into_another_table_of_the_name(lake, spark, tmp_path, log: str) -> None:
    lake.sql(CREATE.format("t", log))
    source = tmp_path / "in"
    put(source, "one", 1)
    rows = spark.readStream.schema("id bigint, name string").option("pathGlobFilter", "*.json").json(str(source))
    query = lake.write_stream(rows, "db.t", str(tmp_path / "cp"))
    query.processAllAvailable()
    assert ids(lake.table("db.t")) == [1]
    owner = connect(warehouse=lake.warehouse)
    owner.sql("drop table db.t")
    owner.sql(CREATE.format("t", log))
    put(source, "two", 2)
    with pytest.raises(PySparkException, match=_REFUSED):
        query.processAllAvailable()
    new = owner.table("db.t")
    assert ids(new) == []
    assert new.log is None or logged(new) == 0
    again = lake.write_stream(rows, "db.t", str(tmp_path / "cp"))
    with pytest.raises(PySparkException, match=_REFUSED):
        again.processAllAvailable()
    assert ids(new) == []
    fresh = lake.write_stream(rows, "db.t", str(tmp_path / "new cp"))
    fresh.processAllAvailable()
    fresh.stop()
    assert ids(new) == [1, 2]


def test_a_stream_of_the_files_does_not_go_on_in_another_table_of_the_name(lake, tmp_path) -> None:

    def made() -> None:
        lake.sql(CREATE.format("t", ""))
        for number in range(3):
            lake.write(pa.table({"id": [number], "name": ["a"]}), "db.t")

    def read() -> None:
        sink = lake.read_stream("db.t").writeStream.format("noop").trigger(availableNow=True)
        sink.option("checkpointLocation", str(tmp_path / "cp")).start().awaitTermination()

    made()
    read()
    read()
    lake.sql("drop table db.t")
    made()
    with pytest.raises(PySparkException, match=r"checkpoint belongs to another table than db\.t"):
        read()
