"""The metadata file of an Iceberg table: its snapshots, schemas and refs (``metadata/v<snapshot>.metadata.json``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from lakelog.errors import Corrupt, LakelogError, NotFound
from lakelog.filestore.iceberg.name_mapping import NAME_MAPPING, NameMapping
from lakelog.filestore.iceberg.schemas import FIRST_PARTITION_ID, Json, highest_id, partition_spec
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO
from lakelog.options.iceberg import VECTORS_VERSION, VERSIONS
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema

HINT: Final = "version-hint.text"
COMMIT: Final = "paimon-commit-identity"
"""Key in the summary of an Iceberg snapshot: the commit that it was made of."""
LEFT_OUT: Final = "lakelog-files-left-out"
"""Key in that summary: number of live data files that Iceberg's readers do not see."""
SHOWN: Final = "lakelog-files-shown"
"""Key in that summary: which data files these readers see."""


@dataclass(frozen=True)
class IcebergSnapshot:
    """One snapshot of an Iceberg table; ``id`` is that of the table's snapshot."""

    id: int
    parent: int | None
    time_millis: int
    schema_id: int
    manifest_list: str
    summary: Mapping[str, str]
    first_row_id: int | None = None
    """The number of the first row that it adds; None in version 2."""
    added_rows: int = 0

    def is_of(self, snapshot: Snapshot) -> bool:
        """Returns whether it was made of this snapshot, and not of one with its number before a rollback."""
        return self.id == snapshot.id and self.summary.get(COMMIT) == commit_text(snapshot)

    def to_json(self) -> Json:
        out: Json = {"sequence-number": self.id, "snapshot-id": self.id}
        if self.parent is not None:
            out["parent-snapshot-id"] = self.parent
        if self.first_row_id is not None:
            out |= {"first-row-id": self.first_row_id, "added-rows": self.added_rows}
        return out | {
            "timestamp-ms": self.time_millis,
            "summary": dict(self.summary),
            "manifest-list": self.manifest_list,
            "schema-id": self.schema_id,
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> IcebergSnapshot:
        parent, number = values.get("parent-snapshot-id"), values.get("first-row-id")
        return IcebergSnapshot(
            int(values["snapshot-id"]),
            None if parent is None else int(parent),
            int(values["timestamp-ms"]),
            int(values["schema-id"]),
            str(values["manifest-list"]),
            {str(key): str(value) for key, value in values["summary"].items()},
            None if number is None else int(number),
            int(values.get("added-rows", 0)),
        )


@dataclass(frozen=True)
class IcebergMetadata:
    """The state of an Iceberg table: its snapshots by id, the current one, and tags."""

    table_uuid: str
    location: str
    current: int
    snapshots: tuple[IcebergSnapshot, ...]
    tags: Mapping[str, int]
    schemas: tuple[Json, ...]
    last_column_id: int
    version: int = 2
    next_row_id: int = 0
    """Above the numbers of all rows, also of removed snapshots; 0 in version 2."""

    def to_json(self, schema: TableSchema) -> bytes:
        """The bytes of the metadata file; ``schema`` is the current one."""
        spec = partition_spec(schema)
        times = self._times()
        numbers = {"next-row-id": self.next_row_id} if self.version >= VECTORS_VERSION else {}
        return orjson.dumps(
            {
                "format-version": self.version,
                **numbers,
                "table-uuid": self.table_uuid,
                "location": self.location,
                "last-sequence-number": max(s.id for s in self.snapshots),
                "last-updated-ms": times[self.current],
                "last-column-id": max(self.last_column_id, *map(highest_id, self.schemas)),
                "current-schema-id": schema.id,
                "schemas": self.schemas,
                "default-spec-id": 0,
                "partition-specs": [{"spec-id": 0, "fields": spec}],
                "last-partition-id": FIRST_PARTITION_ID - 1 + len(spec),
                "default-sort-order-id": 0,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "properties": {NAME_MAPPING: orjson.dumps(NameMapping.of(self.schemas).fields).decode()},
                "current-snapshot-id": self.current,
                "snapshots": [replace(s, time_millis=times[s.id]).to_json() for s in self.snapshots],
                "snapshot-log": [{"snapshot-id": s.id, "timestamp-ms": times[s.id]} for s in self.snapshots],
                "refs": {
                    "main": {"snapshot-id": self.current, "type": "branch"},
                    **{name: {"snapshot-id": at, "type": "tag"} for name, at in sorted(self.tags.items())},
                },
            },
            option=orjson.OPT_INDENT_2,
        )

    def _times(self) -> dict[int, int]:
        """The time of each snapshot, never before that of an earlier one: Iceberg's readers refuse that."""
        out: dict[int, int] = {}
        newest = 0
        for snapshot in self.snapshots:
            newest = max(newest, snapshot.time_millis)
            out[snapshot.id] = newest
        return out

    @staticmethod
    def from_json(data: bytes) -> IcebergMetadata:
        """Reads a metadata file. Raises Corrupt."""
        try:
            values = orjson.loads(data)
            version = values["format-version"]
            if version not in VERSIONS:
                raise Corrupt(f"Iceberg metadata of version {version}")
            snapshots = tuple(IcebergSnapshot.from_json(s) for s in values["snapshots"])
            tags = {
                str(name): int(ref["snapshot-id"])
                for name, ref in (values.get("refs") or {}).items()
                if ref["type"] == "tag"
            }
            return IcebergMetadata(
                str(values["table-uuid"]),
                str(values["location"]),
                int(values["current-snapshot-id"]),
                tuple(sorted(snapshots, key=lambda s: s.id)),
                tags,
                tuple(values["schemas"]),
                int(values["last-column-id"]),
                version,
                int(values["next-row-id"]) if version >= VECTORS_VERSION else 0,
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as why:
            raise Corrupt(f"not an Iceberg metadata file: {why!r}") from None


def next_row_id(free: int, snapshots: Iterable[IcebergSnapshot]) -> int:
    """The first number from ``free`` on that no row of the snapshots has."""
    return max((free, *(s.first_row_id + s.added_rows for s in snapshots if s.first_row_id is not None)))


def commit_text(snapshot: Snapshot) -> str:
    """What identifies the commit of a snapshot, as Paimon writes it."""
    return f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}"


@dataclass(frozen=True)
class MetadataFiles:
    """The metadata files of a table and the hint that names the current one."""

    io: FileIO
    paths: TablePaths

    def path(self, version: int) -> str:
        """The metadata file of a version, which is the number of a snapshot."""
        return self.paths.iceberg_file(f"v{version}.metadata.json")

    def hint(self) -> int | None:
        """The current version; None if there is none."""
        try:
            return int(self.io.read(self.paths.iceberg_file(HINT)))
        except (NotFound, ValueError):
            return None

    def write_hint(self, version: int) -> None:
        """Makes a version the current one."""
        self.io.write(self.paths.iceberg_file(HINT), str(version).encode())

    def read(self, version: int) -> IcebergMetadata | None:
        """One version; None if it does not exist or cannot be read, and must be made again."""
        with contextlib.suppress(LakelogError):
            return IcebergMetadata.from_json(self.io.read(self.path(version)))
        return None

    def versions(self) -> Sequence[int]:
        """All versions, by listing."""
        out = []
        for status in self.io.list(self.paths.iceberg):
            number = status.name.removeprefix("v").removesuffix(".metadata.json")
            if status.name == f"v{number}.metadata.json" and number.isdecimal():
                out.append(int(number))
        return sorted(out)
