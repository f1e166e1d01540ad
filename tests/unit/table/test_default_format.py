"""The format of a new table's log: the cheap one where only lakelog can read the log, unless the user names one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.logstore import LOG_SYSTEMS, log_factory
from lakelog.options.log import DATA_FORMAT, LOG_ADDRESS
from log_tables import rows


def lake_at(place: Path) -> Lake:
    return connect(warehouse=str(place / "warehouse"))


def made(lake: Lake, options: str) -> Table:
    lake.sql(f"create table db.t (id int, name string, primary key (id)) tblproperties ({options})")
    return lake.table("db.t")


def stored(table: Table) -> str | None:
    return table.definition.options.get(DATA_FORMAT.key)


LOG = "'log-store.enabled' = 'true'"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LOG, "arrow"),
        (f"{LOG}, 'log-store.type' = 'files'", "arrow"),
        ("'log.system' = 'embedded'", "arrow"),
        (f"{LOG}, 'log.content' = 'changes'", "arrow"),
        (f"{LOG}, 'log.format' = 'json'", "debezium-json"),
        (f"{LOG}, 'log-store.data-format' = 'debezium-json', 'log-store.type' = 'files'", "debezium-json"),
        (f"{LOG}, 'lakelog.defaults' = 'amoro', 'log-store.type' = 'embedded'", "debezium-json"),
        ("'bucket' = '1'", None),
    ],
)
def test_a_new_table_stores_its_format(tmp_path: Path, options: str, expected: str | None) -> None:
    table = made(lake_at(tmp_path), options)
    assert stored(table) == expected
    table.write(rows(1, 2))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    if expected is not None:
        shown = lake_at(tmp_path).sql("show create table db.t").to_arrow()[0][0].as_py()
        assert f"'{DATA_FORMAT.key}' = '{expected}'" in shown


def test_only_a_log_that_no_other_program_reads_is_packed() -> None:
    formats = {name: log_factory(name).data_format or DATA_FORMAT.default for name in LOG_SYSTEMS}
    assert {name: formats[name] for name in ("embedded", "files", "kafka", "pulsar")} == {
        "embedded": "arrow",
        "files": "arrow",
        "kafka": "debezium-json",
        "pulsar": "debezium-json",
    }


def test_a_table_that_was_made_without_a_stored_format_keeps_debezium_json(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    table = made(lake, f"{LOG}, 'log.format' = 'json'")
    table.write(rows(1))
    (file,) = (Path(table.path) / "schema").glob("schema-*")
    schema = json.loads(file.read_text())
    del schema["options"][DATA_FORMAT.key]
    file.write_text(json.dumps(schema), encoding="utf-8")
    table = lake_at(tmp_path).table("db.t")
    assert stored(table) is None
    table.write(rows(2))
    told = [row["id"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert sorted(told) == [1, 2]
    values = pa.concat_tables(table.log_records()).column("value").to_pylist()
    assert all(json.loads(value)["op"] == "c" for value in values if value is not None)


def test_the_format_of_a_table_is_fixed(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    made(lake, LOG)
    with pytest.raises(InvalidOption, match="rows of its log depend on it"):
        lake.sql("alter table db.t set tblproperties ('log-store.data-format' = 'debezium-json')")
    with pytest.raises(InvalidOption, match="rows of its log depend on it"):
        lake.sql("alter table db.t unset tblproperties ('log-store.data-format')")


def test_a_table_like_another_one_has_its_format_or_that_of_the_log_system_it_names(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    made(lake, f"{LOG}, 'log.format' = 'json'")
    lake.sql("create table db.same like db.t")
    lake.sql("create table db.files like db.t tblproperties ('log-store.type' = 'files')")
    lake.sql("create table db.both like db.t tblproperties ('log-store.type' = 'files', 'log.format' = 'json')")
    found = {name: stored(lake.table(f"db.{name}")) for name in ("same", "files", "both")}
    assert found == {"same": "debezium-json", "files": "arrow", "both": "debezium-json"}
    assert all(LOG_ADDRESS.key not in lake.table(f"db.{name}").definition.options for name in found)
