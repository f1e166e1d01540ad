"""VARIANT columns in a log on a real Kafka, in both of its formats."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.service.servers.server_process import KafkaBroker


@pytest.mark.parametrize("form", ["arrow", "debezium-json"])
def test_values_come_back_from_the_log_and_from_files(kafka: KafkaBroker, tmp_path: Path, form: str) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table t (id int, v variant, primary key (id)) with ('bucket' = '2', 'log-store.enabled' = 'true', "
        f"'log-store.address' = '{kafka.bootstrap}', 'log-store.data-format' = '{form}', "
        "'log-store.drop-with-table' = 'true')"
    )
    table = lake.table("t")
    texts = ['{"b": 1, "a": [1.50, 1e0, null]}', None, "null", '"é"']
    rows = pa.table({"id": pa.array(range(4), pa.int32()), "v": lakelog.variant.from_json(texts)})
    with table.writer() as writer:
        writer.write(rows)
    tailed = pa.Table.from_batches(table.tail("earliest", stop="latest")).select(["id", "v"])
    assert tailed.sort_by("id").to_pylist() == rows.to_pylist()
    table.seal()
    for mode in ("union", "file"):
        assert table.scan(options={"read.mode": mode}).to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    lake.sql("drop table t")
