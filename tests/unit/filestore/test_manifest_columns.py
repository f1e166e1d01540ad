from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat.avro_file import read_records, write_records
from lakelog.filestore.metadata.manifest_columns import decode_manifest
from lakelog.paimon.metadata.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from lakelog.paimon.metadata.manifest import (
    ADD,
    DELETE,
    MANIFEST_SCHEMA,
    ManifestEntry,
    entry_from_record,
    entry_to_record,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
TABLES = sorted(GOLDEN.glob("*/g.db/*"))
FULL = DataFileMeta(
    "data-1.parquet", 10, 3, b"\0" * 20, b"\1" * 20, SimpleStats(EMPTY_ROW, EMPTY_ROW, (0, None)),
    SimpleStats(b"\2" * 20, b"\3" * 20, ()), 4, 9, 2, 5, ("data-1.index", ""), 1_700_000_000_000, 1, b"\xff", 1,
    ("a", "b"), "s3://else/where", 7, (),
)  # fmt: skip
ENTRIES = [
    ManifestEntry(kind, partition, bucket, 4, file)
    for partition in (EMPTY_ROW, b"\0" * 20)
    for bucket in (0, 3)
    for kind, file in ((ADD, FULL), (ADD, DataFileMeta("data-2.orc", 1, 1)), (DELETE, FULL))
]


def encoded(entries: list[ManifestEntry]) -> bytes:
    return write_records(MANIFEST_SCHEMA, map(entry_to_record, entries))


def decoded(data: bytes, **options: Any) -> list[ManifestEntry]:
    return [entry for part in decode_manifest(data) for entry in part.entries(**options)]


def without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    """The manifest schema of a writer that does not know some fields, and names its records otherwise."""
    fields = [f for f in schema["fields"] if f["name"] not in names]
    inner = [{**f, "type": without(f["type"], *names)} if f["name"] == "_FILE" else f for f in fields]
    return {"type": "record", "name": "Other" + schema["name"].rpartition(".")[2], "fields": inner}


@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.name)
def test_manifests_of_paimon_have_the_entries_that_their_records_say(table: Path) -> None:
    paths = sorted(table.glob("manifest/manifest-[0-9a-f]*"))
    assert paths
    for path in paths:
        data = path.read_bytes()
        assert decoded(data) == [entry_from_record(record) for record in read_records(data)]


def test_all_fields_come_back_in_parts_of_any_size() -> None:
    many = [replace(e, bucket=at) for at, e in enumerate(ENTRIES * 400)]
    parts = list(decode_manifest(encoded(many), chunk_bytes=1))
    assert len(parts) > 1
    assert [e for part in parts for e in part.entries()] == many
    assert all(part.nbytes > 10_000 for part in parts)


def test_only_wanted_places_are_built_in_the_order_of_the_manifest() -> None:
    mixed = ENTRIES[::2] + ENTRIES[1::2]
    for wanted in ((lambda p, b, n: b == 3), (lambda p, b, n: p == EMPTY_ROW), (lambda p, b, n: False)):
        assert decoded(encoded(mixed), in_bucket=wanted) == [e for e in mixed if wanted(e.partition, e.bucket, 4)]


def test_fields_that_a_writer_does_not_know_are_none() -> None:
    names = ("_WRITE_COLS", "_FIRST_ROW_ID", "_EXTERNAL_PATH", "_VALUE_STATS_COLS", "_FILE_SOURCE", "_CREATION_TIME")
    old = write_records(without(MANIFEST_SCHEMA, *names), map(entry_to_record, ENTRIES))
    given = {"write_cols": None, "first_row_id": None, "external_path": None, "value_stats_cols": None}
    bare = {**given, "file_source": None, "creation_time_ms": None}
    assert decoded(old) == [replace(e, file=replace(e.file, **bare)) for e in ENTRIES]


def test_fields_of_newer_writers_are_read_over() -> None:
    new = {**MANIFEST_SCHEMA, "fields": [*MANIFEST_SCHEMA["fields"], {"name": "_NEW", "type": ["null", "int"]}]}
    assert decoded(write_records(new, [{**entry_to_record(e), "_NEW": 1} for e in ENTRIES])) == ENTRIES


def test_another_version_and_a_missing_field_are_distinct_errors() -> None:
    with pytest.raises(UnsupportedFeature, match="version 1"):
        decoded(write_records(MANIFEST_SCHEMA, [entry_to_record(ENTRIES[0]) | {"_VERSION": 1}]))
    with pytest.raises(UnsupportedFeature, match="version None"):
        decoded(write_records(without(MANIFEST_SCHEMA, "_VERSION"), map(entry_to_record, ENTRIES)))
    for name in ("_BUCKET", "_MIN_KEY"):
        with pytest.raises(Corrupt, match=name):
            decoded(write_records(without(MANIFEST_SCHEMA, name), map(entry_to_record, ENTRIES)))


def test_a_manifest_without_entries_has_none() -> None:
    assert decoded(encoded([])) == []


def test_entries_of_a_small_part_are_built_once_and_those_of_a_large_one_are_not_kept() -> None:
    (small,), (large,) = (decode_manifest(encoded(ENTRIES * times)) for times in (1, 20))
    assert list(small.entries()) == ENTRIES
    chosen = small.entries(lambda p, b, n: b == 3)
    assert all(any(entry is kept for kept in small.entries()) for entry in chosen)
    assert small.nbytes > 1000 * len(ENTRIES)
    assert large.entries() == ENTRIES * 20
    assert large.entries()[0] is not large.entries()[0]
