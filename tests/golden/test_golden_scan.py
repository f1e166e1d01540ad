"""Tables written by Apache Paimon are read row by row as Paimon reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.store import FileStore
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.schema.schema import TableSchema
from printed import canonical, printed_rows

DATA = Path(__file__).parent / "data"

TABLES = [
    "aggregation",
    "append_bucketed",
    "append_unaware",
    "branch_tag",
    "changelog_full",
    "changelog_input",
    "changelog_lookup",
    "deletion_vectors",
    "dynamic_bucket",
    "evolution_append",
    "evolution_pk",
    "first_row",
    "manifest_merge",
    "overwrite_expire",
    "partial_update",
    "pk_dedup",
    "pk_dedup_compacted",
    "pk_partitioned",
    "sequence_field",
    "sp_append_dv",
    "sp_evolve",
    "sp_pk",
    "types_avro",
    "types_orc",
    "types_parquet",
    "variants",
]


def open_golden(name: str) -> FileStore:
    path = DATA / name / "g.db" / name
    newest = max((path / "schema").glob("schema-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    return FileStore(LocalFileIO(), str(path), TableSchema.from_json(newest.read_bytes()))


def expected_rows(name: str, view: str) -> list[str]:
    lines = [json.loads(line) for line in (DATA / f"{name}.expected.jsonl").read_text(encoding="utf-8").splitlines()]
    return sorted(canonical(line["row"]) for line in lines if line["view"] == view and "row" in line)


def read_rows(store: FileStore, **plan: Any) -> list[str]:
    rows = store.read_table(store.plan(**plan))
    return sorted(canonical(row) for row in printed_rows(rows))


@pytest.mark.parametrize("name", TABLES)
def test_the_newest_snapshot_reads_as_paimon_reads_it(name: str) -> None:
    assert read_rows(open_golden(name)) == expected_rows(name, "scan")


def test_every_snapshot_that_paimon_listed_reads_the_same() -> None:
    seen = 0
    for name in TABLES:
        lines = (DATA / f"{name}.expected.jsonl").read_text(encoding="utf-8").splitlines()
        views = {json.loads(line)["view"] for line in lines}
        store = open_golden(name)
        for view in sorted(v for v in views if v.startswith("snapshot:")):
            # time travel shows the columns of the schema of that snapshot
            snapshot = store.snapshot(int(view.partition(":")[2]))
            then = FileStore(store.io, store.table_path, store.schemas.get(snapshot.schema_id))
            assert read_rows(then, snapshot_id=snapshot.id) == expected_rows(name, view), f"{name} {view}"
            seen += 1
    assert seen > 0


@pytest.mark.parametrize("name", ["pk_dedup", "pk_partitioned", "append_bucketed"])
def test_a_filter_on_any_column_gives_the_rows_that_a_full_read_gives(name: str) -> None:
    store = open_golden(name)
    whole = store.read_table(store.plan())
    tried = 0
    for field in store.schema.fields:
        for value in whole.column(field.name).unique().drop_null().to_pylist()[:3]:
            for op in ("=", ">=", "<"):
                predicate = Compare(field.name, op, value)
                expected = whole.filter(predicate.to_arrow(whole.schema))
                found = store.read_table(store.plan(filter=predicate), filter=predicate)
                assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist())), predicate
                tried += 1
    assert tried > 5
