"""A table with a feature that this version does not know is refused by name on every path, and nothing changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.lake.lake import Lake
from lakelog.options.features import FEATURES_KEY, PADDED, REPLICA, TableFeatures
from lakelog.sql.procedures import PROCEDURES
from lakelog.table.system import SYSTEM_TABLES


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statements run in this process; those on Spark check the same handle."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")


def make(place: Path, features: str) -> Lake:
    """A table with two rows, whose schema then names features of a later version."""
    lake = connect(str(place))
    options = {"log-store.enabled": "true", "bucket": "1"}
    lake.create_table("db.t", {"id": "int", "v": "string"}, primary_key="id", options=options)
    lake.write(pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}), "db.t")
    for file in (place / "db.db/t/schema").iterdir():
        schema = json.loads(file.read_text())
        schema["options"][FEATURES_KEY] = features
        file.write_text(json.dumps(schema))
    return connect(str(place))


def stored(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file() and "sqlite" not in path.name}


ROWS = pa.table({"id": pa.array([3], pa.int32()), "v": ["c"]})
READS: dict[str, Any] = {
    "scan": lambda lake: lake.table("db.t").scan().to_arrow(),
    "union": lambda lake: lake.table("db.t").scan(options={"read.mode": "union"}).to_arrow(),
    "tail": lambda lake: list(lake.table("db.t").tail("earliest", stop="latest")),
    "sql": lambda lake: lake.sql("select * from db.t"),
    "describe": lambda lake: lake.sql("describe db.t"),
    "backup": lambda lake: lake.backup("db.t", "/nonexistent/backup"),
    "replicate": lambda lake: list(lake.replicate("db.t", "/nonexistent/second", stop="latest")),
    **{f"${name}": lambda lake, name=name: lake.table(f"db.t${name}").scan() for name in SYSTEM_TABLES},
}
WRITES: dict[str, Any] = {
    "write": lambda lake: lake.write(ROWS, "db.t"),
    "insert": lambda lake: lake.sql("insert into db.t values (3, 'c')"),
    "overwrite": lambda lake: lake.write(ROWS, "db.t", overwrite=True),
    "delete": lambda lake: lake.table("db.t").delete("id = 1"),
    "truncate": lambda lake: lake.sql("truncate table db.t"),
    "alter": lambda lake: lake.sql("alter table db.t add column c int"),
    "follow": lambda lake: list(lake.table("db.t").follow(stop="latest")),
    **{
        name: lambda lake, name=name: lake.sql(f"call sys.{name}(table => 'db.t')")
        for name in ("compact", "expire_snapshots", "remove_orphan_files", "clear_consumers", "replay_rejected")
        if name in PROCEDURES
    },
}


@pytest.mark.parametrize("path", [*READS, *WRITES])
def test_an_unknown_reader_feature_is_refused_by_name(tmp_path: Path, path: str) -> None:
    lake = make(tmp_path, "reader=column-families")
    before = stored(tmp_path)
    with pytest.raises(UnsupportedFeature, match="'column-families'.* this version of lakelog cannot"):
        {**READS, **WRITES}[path](lake)
    assert stored(tmp_path) == before


@pytest.mark.parametrize("path", WRITES)
def test_an_unknown_writer_feature_is_refused_for_writes_alone(tmp_path: Path, path: str) -> None:
    lake = make(tmp_path, f"reader={PADDED.name};writer=sorted-lanes")
    assert lake.table("db.t").scan().count() == 2
    before = stored(tmp_path)
    with pytest.raises(UnsupportedFeature, match="'sorted-lanes'.*cannot write"):
        WRITES[path](lake)
    assert stored(tmp_path) == before


def test_the_health_of_such_tables_is_known(tmp_path: Path) -> None:
    unreadable = make(tmp_path / "a", "reader=column-families").health("db.t")
    assert "column-families" in unreadable.findings[0].reason
    unwritable = make(tmp_path / "b", "writer=sorted-lanes").health("db.t")
    assert unwritable.needs == ()


def test_the_text_of_features_is_read_as_it_is_written() -> None:
    features = TableFeatures().with_feature(REPLICA).with_feature(PADDED).with_feature(PADDED)
    assert features.to_text() == "reader=padded-keys;writer=replica"
    assert TableFeatures.of({FEATURES_KEY: features.to_text()}) == features
    with pytest.raises(Corrupt, match="is not a list of features"):
        TableFeatures.of({FEATURES_KEY: "what"})


def test_a_table_names_the_features_that_it_uses(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_table("db.c", {"id": "char(4)", "v": "string"}, primary_key="id")
    lake.create_table("db.t", {"id": "int", "v": "string"}, primary_key="id")
    assert lake.table("db.c").options[FEATURES_KEY] == "reader=padded-keys"
    assert FEATURES_KEY not in lake.table("db.t").options
