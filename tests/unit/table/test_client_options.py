"""What a table says of its log reaches the log's client only when it cannot load code, read files or send secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from lakelog import connect
from lakelog.errors import Corrupt, InvalidOption
from lakelog.lake import Lake
from lakelog.logstore.kafka import topic as kafka

HARMFUL = (
    "plugin.library.paths",
    "ssl.engine.location",
    "ssl.providers",
    "sasl.kerberos.kinit.cmd",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.config",
    "enable.sasl.oauthbearer.unsecure.jwt",  # codespell:ignore unsecure
    "sasl.jaas.config",
    "debug",
    "PLUGIN.LIBRARY.PATHS",
    "bootstrap.servers",
)
FILES = ("ssl.ca.location", "ssl.key.location", "ssl.keystore.location", "sasl.kerberos.keytab")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = connect(warehouse=str(tmp_path / "wh"))
    lake.sql("create table d.t (id int, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    return lake


def _say(tmp_path: Path, **options: str) -> None:
    """Puts options into the table's schema file, as whoever may write the directory can."""
    file = tmp_path / "wh/d.db/t/schema/schema-0"
    schema = orjson.loads(file.read_bytes())
    schema["options"] |= {"log-store.type": "kafka", "log-store.address": "localhost:1", **options}
    file.write_bytes(orjson.dumps(schema))


@pytest.mark.parametrize("key", HARMFUL)
def test_no_client_is_made_with_what_a_schema_file_may_not_say(
    lake: Lake, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _say(tmp_path, **{f"properties.{key}": "/tmp/x"})
    made: list[Any] = []
    monkeypatch.setattr(kafka, "AdminClient", lambda settings: made.append(settings))
    table = lake.table("d.t")
    for ask in (lambda: table.log, lambda: table.tail("earliest"), lambda: table.writer().__enter__()):
        with pytest.raises(InvalidOption, match=f"(?i)properties.{key}.*cannot be an option of a table"):
            ask()
    assert not made and not lake.health("d.t").figures


@pytest.mark.parametrize("key", FILES)
def test_a_file_of_the_client_lies_where_the_catalog_allows(lake: Lake, tmp_path: Path, key: str) -> None:
    file = tmp_path / "certificates" / "ca.pem"
    _say(tmp_path, **{f"properties.{key}": str(file)})
    with pytest.raises(Corrupt, match=r"ca\.pem.*catalog\.external-paths"):
        _ = lake.table("d.t").log
    allowed = connect(warehouse=str(tmp_path / "wh"), catalog_options={"catalog.external-paths": str(file.parent)})
    log = allowed.table("d.t").log
    assert log is not None and log.properties == {key: str(file)}


@pytest.mark.parametrize("key", [*HARMFUL, *FILES])
def test_they_are_refused_when_a_table_is_made_or_changed(lake: Lake, key: str) -> None:
    given = f"'properties.{key}' = '/tmp/x'"
    log = "'log-store.enabled' = 'true', 'log-store.address' = 'localhost:1'"
    with pytest.raises((InvalidOption, Corrupt), match=r"cannot be an option|external-paths"):
        lake.sql(f"create table d.x (id int) tblproperties ({log}, {given})")
    with pytest.raises((InvalidOption, Corrupt), match=r"cannot be an option|external-paths"):
        lake.sql(f"alter table d.t set tblproperties ({given})")
    assert "d.x" not in lake.list_tables()
