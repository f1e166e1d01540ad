"""Nothing leads out of a table: no option that a user gives, no metadata that somebody has put there, no link."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, InvalidOption, InvalidRequest
from lakelog.fileformat.avro_file import read_records, write_records
from lakelog.filestore.metadata.manifests import MANIFEST_CACHE
from lakelog.lake import Lake
from lakelog.paimon.metadata.manifest_avro import MANIFEST_SCHEMA

CREATE = (
    "create table d.{name} (id bigint not null, primary key (id)) using lakelog tblproperties ('bucket' = '1'{more})"
)
OUTWARDS = {
    "data-file.path-directory": ("../../../out", "/out", "a/../../b", ".."),
    "data-file.prefix": ("../../../../tmp/x-", "/x", "a/b-", "x\ny"),
    "changelog-file.prefix": ("../x-", "a/b"),
    "partition.default-name": ("../x", "/"),
    "consumer-id": ("../x", "..", "a/b"),
}


def make(lake: Lake, name: str = "t", more: str = "") -> Path:
    """A table of three snapshots; gives its directory."""
    lake.sql(CREATE.format(name=name, more=more))
    for number in range(3):
        insert(lake, name, number)
    return Path(lake.table(f"d.{name}").path)


def insert(lake: Lake, name: str, number: int) -> None:
    lake.table(f"d.{name}").write(pa.table({"id": [number]}))


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in OUTWARDS.items() for value in values])
def test_an_option_that_leads_out_is_refused_wherever_it_is_given(lake: Lake, key: str, value: str) -> None:
    make(lake)
    with pytest.raises(InvalidOption, match=key):
        lake.sql(CREATE.format(name="evil", more=f", '{key}' = '{value}'"))
    with pytest.raises(InvalidOption, match=key):
        lake.sql(f"alter table d.t set tblproperties ('{key}' = '{value}')")
    with pytest.raises(InvalidOption, match=key):
        lake.table("d.t").scan(options={key: value}).to_arrow()
    with pytest.raises(InvalidOption, match=key), lake.table("d.t").writer(options={key: value}) as writer:
        writer.write(pa.table({"id": [9]}))


@pytest.mark.parametrize("directory", ["data", "a/b", "data/"])
def test_a_directory_inside_is_taken(lake: Lake, directory: str) -> None:
    path = make(lake, more=f", 'data-file.path-directory' = '{directory}'")
    assert len(list((path / directory.rstrip("/") / "bucket-0").iterdir())) == 3
    assert lake.table("d.t").scan().to_arrow().num_rows == 3


def test_the_schema_of_another_engine_does_not_make_cleaning_reach_another_table(lake: Lake) -> None:
    victim = make(lake, "victim")
    evil = make(lake, "evil")
    set_option(evil, "data-file.path-directory", "../victim")
    before = sorted(victim.rglob("*"))
    with pytest.raises(InvalidOption, match=r"data-file\.path-directory"):
        lake.table("d.evil").remove_orphan_files(older_than="0 s")
    assert sorted(victim.rglob("*")) == before


def set_option(table: Path, key: str, value: str) -> None:
    """Puts an option into the first schema of a table, as another engine could."""
    path = table / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"][key] = value
    path.write_text(json.dumps(schema))


def rename_files(table: Path, name: str) -> None:
    """Lets every manifest of a table name the file ``name``."""
    for path in (table / "manifest").glob("manifest-[0-9a-f]*"):
        records = read_records(path.read_bytes())
        for record in records:
            record["_FILE"]["_FILE_NAME"] = name
        path.write_bytes(write_records(MANIFEST_SCHEMA, records, "none"))
    MANIFEST_CACHE.clear()


def test_expiry_deletes_no_file_that_a_manifest_names_outside(lake: Lake, tmp_path: Path) -> None:
    table = make(lake)
    precious = tmp_path / "outside" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("precious")
    rename_files(table, "../../../../outside/precious.txt")
    lake.table("d.t").truncate()
    with pytest.raises(Corrupt, match=r"precious\.txt' in '.*bucket-0' \(_FILE_NAME of a manifest\)"):
        lake.table("d.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    with pytest.raises(Corrupt, match="_FILE_NAME"):
        lake.table("d.t").scan(snapshot_id=1).to_arrow()
    assert precious.read_text() == "precious"


def test_dropping_a_table_deletes_no_log_that_its_schema_names_outside(lake: Lake, tmp_path: Path) -> None:
    table = make(lake, more=", 'log-store.enabled' = 'true'")
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    set_option(table, "log-store.address", str(precious))
    with pytest.raises(Corrupt, match=r"precious\.txt"):
        lake.sql("drop table d.t")
    assert precious.exists()


def test_links_are_not_followed(lake: Lake, tmp_path: Path) -> None:
    table, victim = make(lake), make(lake, "victim")
    before = sorted(victim.rglob("*"))
    shutil.rmtree(table / "bucket-0")
    (table / "bucket-0").symlink_to(victim / "bucket-0")
    with pytest.raises(Corrupt, match="symbolic link"):
        lake.table("d.t").scan().to_arrow()
    assert lake.table("d.t").remove_orphan_files(older_than="0 s").files == ()
    lake.sql("drop table d.t")
    assert not table.exists()
    assert sorted(victim.rglob("*")) == before


def test_a_directory_that_becomes_a_link_is_noticed_by_a_handle_that_is_open(lake: Lake, tmp_path: Path) -> None:
    path = make(lake)
    table = lake.table("d.t")
    assert table.scan().count() == 3
    for moved in (path / "snapshot", path):
        moved.rename(tmp_path / f"moved {moved.name}")
        moved.symlink_to(tmp_path / f"moved {moved.name}")
        with pytest.raises(Corrupt, match="is not below"):
            table.scan().count()
        moved.unlink()
        (tmp_path / f"moved {moved.name}").rename(moved)
    assert table.scan().count() == 3


def test_a_snapshot_that_another_engine_has_rolled_back_and_made_anew_is_read_anew(lake: Lake) -> None:
    path = make(lake)
    table = lake.table("d.t")
    assert table.scan().count() == 3
    newest, before = path / "snapshot" / "snapshot-3", json.loads((path / "snapshot" / "snapshot-2").read_bytes())
    newest.write_text(json.dumps({**before, "id": 3, "commitUser": "another"}), encoding="utf-8")
    assert table.scan().count() == 2
    insert(lake, "t", 7)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 7]


def test_a_data_file_that_is_a_link_is_read_only_where_it_leads_inside(lake: Lake, tmp_path: Path) -> None:
    table = make(lake)
    file = next((table / "bucket-0").iterdir())
    file.rename(table / "kept.parquet")
    file.symlink_to(table / "kept.parquet")
    assert lake.table("d.t").scan().to_arrow().num_rows == 3
    away = tmp_path / "away.parquet"
    os.rename(table / "kept.parquet", away)
    file.unlink()
    file.symlink_to(away)
    with pytest.raises(Corrupt, match="symbolic link"):
        lake.table("d.t").scan().to_arrow()
    lake.table("d.t").truncate()
    lake.table("d.t").expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert not file.is_symlink(), "the link was the table's"
    assert away.exists()


def test_dropping_a_linked_table_leaves_what_the_link_leads_to(lake: Lake, tmp_path: Path) -> None:
    table = make(lake)
    away = tmp_path / "away"
    table.rename(away)
    table.symlink_to(away)
    before = sorted(away.rglob("*"))
    assert lake.table("d.t").scan().to_arrow().num_rows == 3
    with pytest.raises(InvalidRequest, match="symbolic link"):
        lake.sql("drop table d.t")
    assert sorted(away.rglob("*")) == before
