"""What another engine let stand in a table's options is not shown when it may be a secret."""

from __future__ import annotations

import orjson
import pytest

from lakelog import connect


@pytest.mark.parametrize("key", ["s3.secret-key", "fs.s3a.secret.key", "s3.access.key", "properties.sasl.password"])
def test_secrets_in_the_options_of_a_table(tmp_path, key: str) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int)")
        path = tmp_path / "d.db" / "t" / "schema" / "schema-0"
        schema = orjson.loads(path.read_bytes())
        schema["options"][key] = "hush"
        path.write_bytes(orjson.dumps(schema))
        table = lake.table("d.t")
        shown = [str(lake.table(f"d.t${name}").scan().to_arrow().to_pylist()) for name in ("options", "schemas")]
        shown.append(str(table.describe(extended=True)))
        for text in shown:
            assert key in text
            assert "hush" not in text
