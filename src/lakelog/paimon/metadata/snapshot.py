"""One committed version of a table, as its snapshot file holds it (format sheet 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from lakelog.options.notebook import NotebookView, time_text
from lakelog.paimon.types.checked_values import check_version
from lakelog.paimon.types.json_record import JsonRecord

APPEND: Final = "APPEND"
COMPACT: Final = "COMPACT"
OVERWRITE: Final = "OVERWRITE"
ANALYZE: Final = "ANALYZE"

SNAPSHOT_VERSION: Final = 3
BATCH_COMMIT_IDENTIFIER: Final = 2**63 - 1
"""The commit identifier of jobs that commit once."""


@dataclass(frozen=True, repr=False)
class Snapshot(NotebookView, JsonRecord, of_paimon=True):
    """A snapshot. Record counts are physical rows (not merged); ``delta_record_count`` is added − deleted.

    Snapshots of very old writers have no counts. ``properties`` is a free map of text that later snapshots of other
    writers do not inherit.
    """

    version: int = field(default=SNAPSHOT_VERSION, kw_only=True)
    id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = field(default=None, kw_only=True)
    delta_manifest_list: str
    delta_manifest_list_size: int | None = field(default=None, kw_only=True)
    changelog_manifest_list: str | None = field(default=None, kw_only=True)
    changelog_manifest_list_size: int | None = field(default=None, kw_only=True)
    index_manifest: str | None = field(default=None, kw_only=True)
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    total_record_count: int | None
    delta_record_count: int | None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None

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

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Reads a snapshot; unknown properties are ignored. Raises Corrupt, UnsupportedFeature (version)."""
        if isinstance(values, Mapping):
            check_version(values.get("version"), SNAPSHOT_VERSION, "snapshot")
        return super().from_values(values)
