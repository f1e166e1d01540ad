from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakelog.errors import Corrupt
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
SNAPSHOTS = sorted(GOLDEN.glob("*/g.db/*/snapshot/snapshot-*"))
MINIMAL = Snapshot(1, 0, "base", "delta", "me", 7, APPEND, 1_700_000_000_000, 3, 3)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda p: f"{p.parts[-3]}-{p.name}")
def test_a_snapshot_of_paimon_is_written_as_it_was_read(path: Path) -> None:
    snapshot = Snapshot.from_json(path.read_bytes())
    found = json.loads(path.read_bytes())
    # Paimon 0.9 wrote nulls, and a map of offsets that later versions dropped
    assert json.loads(snapshot.to_json()) == {k: v for k, v in found.items() if v is not None and k != "logOffsets"}


def test_fields_that_are_none_are_left_out() -> None:
    assert json.loads(MINIMAL.to_json()) == {
        "version": 3,
        "id": 1,
        "schemaId": 0,
        "baseManifestList": "base",
        "deltaManifestList": "delta",
        "commitUser": "me",
        "commitIdentifier": 7,
        "commitKind": "APPEND",
        "timeMillis": 1_700_000_000_000,
        "totalRecordCount": 3,
        "deltaRecordCount": 3,
    }
    assert Snapshot.from_json(MINIMAL.to_json()) == MINIMAL


def test_explicit_nulls_legacy_and_unknown_fields_are_read_over() -> None:
    found = json.loads(MINIMAL.to_json()) | {"changelogManifestList": None, "logOffsets": {}, "operation": "WRITE"}
    assert Snapshot.from_json(json.dumps(found).encode()) == MINIMAL


def test_properties_are_kept() -> None:
    found = json.loads(MINIMAL.to_json()) | {"properties": {"lakelog.offsets": "0:5"}}
    snapshot = Snapshot.from_json(json.dumps(found).encode())
    assert snapshot.properties == {"lakelog.offsets": "0:5"}
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'{"id": 1}'])
def test_bytes_that_are_no_snapshot_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        Snapshot.from_json(data)
