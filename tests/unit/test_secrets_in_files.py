"""A plain secret in any file of a warehouse is found; a warehouse of the catalog's own tables has none."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lakelog import connect
from lakelog.errors import InvalidOption
from secrets_in_files import secrets_given, secrets_in, warehouses

ROOT = Path(__file__).parents[2]
OPTIONS = "'bucket' = '1', 'log-store.enabled' = 'true', 'properties.sasl.password' = "


def test_texts_name_the_secrets_that_they_give() -> None:
    text = (
        """s3.secret-key = "lake-secret", 'sasl.password' = 'hunter22', "password": "secret:env:NAME", token = "…" """
    )
    assert secrets_given(text) == {"lake-secret", "hunter22"}
    assert secrets_given((ROOT / "docs" / "guide" / "storage.md").read_text(encoding="utf-8")) >= {"lake-secret"}


def test_a_plain_secret_in_a_schema_a_log_or_any_file_is_found(tmp_path: Path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    with pytest.raises(InvalidOption, match="secret:env"):
        lake.sql(f"create table db.t (id int, primary key (id)) tblproperties ({OPTIONS}'hunter22')")
    lake.sql(f"create table db.t (id int, primary key (id)) tblproperties ({OPTIONS}'secret:env:PASSWORD')")
    lake.sql("insert into db.t values (1)")
    (warehouse,) = warehouses(tmp_path)
    assert secrets_in(warehouse, {"hunter22"}) == []
    lake.sql(
        f"create table db.u (id int, primary key (id)) tblproperties ({OPTIONS}'hunter22', "
        "'log-store.allow-plaintext' = 'true')"
    )
    found = secrets_in(warehouse, {"hunter22"})
    assert [name for line in found for name in re.findall(r"schema-0: (\S+)", line)] == [
        "hu…",
        "properties.sasl.password",
    ]
    (warehouse / "db.db" / "t" / "note").write_bytes(os.urandom(9) + b"hunter22" + os.urandom(9))
    assert len(secrets_in(warehouse, {"hunter22"})) == len(found) + 1
