"""One committed version of a table, as its snapshot file holds it (format sheet 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from lakelog.errors import Corrupt
from lakelog.options.notebook import NotebookView, time_text
from lakelog.paimon.types.checked_values import check_version, checked, metadata_json

APPEND: Final = "APPEND"
COMPACT: Final = "COMPACT"
OVERWRITE: Final = "OVERWRITE"
ANALYZE: Final = "ANALYZE"

SNAPSHOT_VERSION: Final = 3
BATCH_COMMIT_IDENTIFIER: Final = 2**63 - 1
"""The commit identifier of jobs that commit once."""


@dataclass(frozen=True, repr=False)
class Snapshot(NotebookView):
    """A snapshot. Record counts are physical rows (not merged); ``delta_record_count`` is added − deleted.

    ``properties`` is a free map of text that later snapshots of other writers do not inherit.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    total_record_count: int | None
    delta_record_count: int | None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    version: int = SNAPSHOT_VERSION

    def __repr__(self) -> str:
        rows = (
            f"{self.total_record_count} records, {self.delta_record_count:+d}"
            if None not in (self.total_record_count, self.delta_record_count)
            else "records unknown"
        )
        return f"Snapshot({self.id}, {self.commit_kind}, {time_text(self.time_millis)}, {rows})"

    def notebook_facts(self) -> Mapping[str, object]:
        """Id, kind, time, records and writer."""
        return {
            "id": str(self.id),
            "kind": self.commit_kind,
            "committed": time_text(self.time_millis),
            "records": self.total_record_count,
            "change": None if self.delta_record_count is None else f"{self.delta_record_count:+,}",
            "watermark": None if self.watermark is None else time_text(self.watermark),
            "schema": str(self.schema_id),
            "writer": self.commit_user,
        }

    def to_json(self) -> bytes:
        """The bytes of the snapshot file; fields that are None are left out."""
        out = {name: value for name, key in _KEYS.items() if (value := getattr(self, key)) is not None}
        if self.properties is not None:
            out["properties"] = dict(self.properties)
        return orjson.dumps(out, option=orjson.OPT_INDENT_2)

    @staticmethod
    def from_json(data: bytes) -> Snapshot:
        """Reads a snapshot file; unknown properties are ignored. Raises Corrupt, UnsupportedFeature (version)."""
        try:
            found: dict[str, Any] = metadata_json(data)
            check_version(found.get("version"), SNAPSHOT_VERSION, "snapshot")
            given: dict[str, Any] = {key: found[name] for name, key in _KEYS.items() if found.get(name) is not None}
            return checked(Snapshot(**{**_COUNTS, **given}))
        except (orjson.JSONDecodeError, TypeError, AttributeError) as why:
            raise Corrupt(f"not a snapshot file: {why}") from None


_KEYS: Final = {
    "version": "version",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
}
_COUNTS: Final[dict[str, Any]] = {"total_record_count": None, "delta_record_count": None}
"""Snapshots of very old writers have no counts; every other required field must be there."""
