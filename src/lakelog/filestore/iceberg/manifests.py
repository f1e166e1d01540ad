"""Iceberg's manifests and manifest lists: Avro files in the directory ``metadata`` of a table.

Their names are hashes of their content, so two processes that write the same snapshot write the same files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lakelog.errors import Corrupt
from lakelog.fileformat.avro_file import read_records, write_records
from lakelog.filestore.iceberg.schemas import Json, avro_type, iceberg_schema, partition_spec
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import parsing

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
_COUNTS: Final = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Entry = dict[str, Any]
"""A record of a manifest, with Iceberg's names."""
ManifestRecord = dict[str, Any]
"""A record of a manifest list."""


def uri_of(path: str) -> str:
    """The location of a file as Iceberg's readers take it."""
    return path if "://" in path else f"file://{path}"


@dataclass
class IcebergFiles:
    """The Iceberg files of one table. New ones wait in memory until ``flush``."""

    io: FileIO
    paths: TablePaths
    _waiting: dict[str, bytes] = field(default_factory=dict)

    def write_manifest(self, entries: Sequence[Entry], snapshot_id: int, schema: TableSchema) -> ManifestRecord:
        """Writes entries as a manifest of a snapshot; returns its record for the manifest list."""
        spec = partition_spec(schema)
        data = self._encode(
            _manifest_schema(schema),
            entries,
            {
                "schema": json.dumps(iceberg_schema(schema)),
                "schema-id": str(schema.id),
                "partition-spec": json.dumps(spec),
                "partition-spec-id": "0",
                "format-version": "2",
                "content": "data",
            },
        )
        name = f"{_hash(data)}-m0.avro"
        self._waiting[self.paths.iceberg_file(name)] = data
        counts: dict[str, int] = {}
        for status, word in _COUNTS.items():
            rows = [e["data_file"]["record_count"] for e in entries if e["status"] == status]
            counts |= {f"{word}_files_count": len(rows), f"{word}_rows_count": sum(rows)}
        live = [e["sequence_number"] for e in entries if e["status"] != DELETED]
        return {
            "manifest_path": uri_of(self.io.absolute(self.paths.iceberg_file(name))),
            "manifest_length": len(data),
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": snapshot_id,
            "min_sequence_number": min(live, default=snapshot_id),
            "added_snapshot_id": snapshot_id,
            **counts,
            "partitions": None,
        }

    def write_list(self, manifests: Sequence[ManifestRecord], snapshot_id: int, parent: int | None) -> str:
        """Writes a manifest list; returns its location."""
        header = {"snapshot-id": str(snapshot_id), "sequence-number": str(snapshot_id), "format-version": "2"}
        if parent is not None:
            header["parent-snapshot-id"] = str(parent)
        data = self._encode(_LIST_SCHEMA, manifests, header)
        path = self.paths.iceberg_file(f"snap-{snapshot_id}-{_hash(data)}.avro")
        self._waiting[path] = data
        return uri_of(self.io.absolute(path))

    def read_manifest(self, manifest: ManifestRecord) -> list[Entry]:
        """The entries of a manifest that are not deleted. Raises NotFound, Corrupt."""
        return [e for e in self._read(manifest["manifest_path"]) if e["status"] != DELETED]

    def read_list(self, location: str) -> list[ManifestRecord]:
        """The manifests of a manifest list that have files. Raises NotFound, Corrupt."""
        return [m for m in self._read(location) if m["added_files_count"] + m["existing_files_count"]]

    def named_manifests(self, location: str) -> set[str]:
        """The locations of all manifests in a manifest list, also of those without files."""
        return {m["manifest_path"] for m in self._read(location)}

    def delete(self, locations: Sequence[str]) -> None:
        """Deletes Iceberg files; others are not touched."""
        for location in locations:
            self.io.delete(self._path(location))

    def discard(self, manifests: Sequence[ManifestRecord]) -> None:
        """Forgets manifests that wait and that no list will name."""
        for manifest in manifests:
            self._waiting.pop(self._path(manifest["manifest_path"]), None)

    def flush(self) -> None:
        """Writes the waiting files, before the metadata name them."""
        files, self._waiting = self._waiting, {}
        if files:
            self.io.write_all(files)

    def _read(self, location: str) -> list[dict[str, Any]]:
        path = self._path(location)
        data = self._waiting.get(path)
        with parsing(path):
            return read_records(self.io.read(path) if data is None else data)

    def _path(self, location: str) -> str:
        """The path of a location that was read from metadata. Raises Corrupt if it is in another directory."""
        path = self.paths.iceberg_file(location.rpartition("/")[2])
        if uri_of(self.io.absolute(path)) != location and self.io.absolute(path) != location:
            raise Corrupt(f"Iceberg metadata refer to '{location}', which is not in '{self.paths.iceberg}'")
        return path

    def _encode(self, schema: Json, records: Sequence[Mapping[str, Any]], header: Mapping[str, str]) -> bytes:
        sync = hashlib.blake2b(repr((header, records)).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return write_records(schema, records, "deflate", metadata=header, sync=sync)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _column(name: str, kind: Any, number: int) -> Json:
    optional = {"default": None} if isinstance(kind, list) else {}
    return {"name": name, "type": kind, "field-id": number, **optional}


def _number_map(key: int, value: int, kind: str) -> list[Any]:
    """A map from field ids, as Avro has it: a list of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_column("key", "int", key), _column("value", kind, value)],
    }
    return _optional({"type": "array", "items": pair, "logicalType": "map"})


def partition_names(schema: TableSchema) -> list[str]:
    """The names of the partition fields in Avro records; readers go by their ids."""
    return [
        name if _AVRO_NAME.fullmatch(name) else f"_p{spec['field-id']}"
        for name, spec in zip(schema.partition_keys, partition_spec(schema), strict=True)
    ]


def _manifest_schema(schema: TableSchema) -> Json:
    partition = [
        _column(name, _optional(avro_type(schema.field(key).type, spec["field-id"])), spec["field-id"])
        for name, key, spec in zip(partition_names(schema), schema.partition_keys, partition_spec(schema), strict=True)
    ]
    data_file = [
        _column("content", "int", 134),
        _column("file_path", "string", 100),
        _column("file_format", "string", 101),
        _column("partition", {"type": "record", "name": "r102", "fields": partition}, 102),
        _column("record_count", "long", 103),
        _column("file_size_in_bytes", "long", 104),
        _column("value_counts", _number_map(119, 120, "long"), 109),
        _column("null_value_counts", _number_map(121, 122, "long"), 110),
        _column("lower_bounds", _number_map(126, 127, "bytes"), 125),
        _column("upper_bounds", _number_map(129, 130, "bytes"), 128),
    ]
    fields = [
        _column("status", "int", 0),
        _column("snapshot_id", _optional("long"), 1),
        _column("sequence_number", _optional("long"), 3),
        _column("file_sequence_number", _optional("long"), 4),
        _column("data_file", {"type": "record", "name": "r2", "fields": data_file}, 2),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


_SUMMARY: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        _column("contains_null", "boolean", 509),
        _column("contains_nan", _optional("boolean"), 518),
        _column("lower_bound", _optional("bytes"), 510),
        _column("upper_bound", _optional("bytes"), 511),
    ],
}
_LIST_SCHEMA: Final[Json] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _column("manifest_path", "string", 500),
        _column("manifest_length", "long", 501),
        _column("partition_spec_id", "int", 502),
        _column("content", "int", 517),
        _column("sequence_number", "long", 515),
        _column("min_sequence_number", "long", 516),
        _column("added_snapshot_id", "long", 503),
        _column("added_files_count", "int", 504),
        _column("existing_files_count", "int", 505),
        _column("deleted_files_count", "int", 506),
        _column("added_rows_count", "long", 512),
        _column("existing_rows_count", "long", 513),
        _column("deleted_rows_count", "long", 514),
        _column("partitions", _optional({"type": "array", "items": _SUMMARY, "element-id": 508}), 507),
    ],
}
