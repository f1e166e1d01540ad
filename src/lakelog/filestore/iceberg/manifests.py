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
from lakelog.options.iceberg import VECTORS_VERSION
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.checked_values import parsing

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
_COUNTS: Final = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}
DATA: Final = 0
DELETES: Final = 1
_CONTENTS: Final = {DATA: ("data", "m0"), DELETES: ("deletes", "d0")}
"""Content of a manifest → its name in the header, and the end of the manifest's name."""
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Entry = dict[str, Any]
"""A record of a manifest, with Iceberg's names."""
ManifestRecord = dict[str, Any]
"""A record of a manifest list."""
Key = tuple[str, str | None]
"""Identity of an entry: the location of a data file, or of a Puffin file and the data file of one of its vectors."""


@dataclass(frozen=True)
class Draft:
    """The Iceberg snapshot that is made; ``schema`` is that of the table at that time.

    ``first_row_id`` is the number of the first row in the files that the snapshot adds; None in version 2.
    """

    id: int
    schema: TableSchema
    first_row_id: int | None = None


def uri_of(path: str) -> str:
    """The location of a file as Iceberg's readers take it."""
    return path if "://" in path else f"file://{path}"


def key_of(entry: Entry) -> Key:
    """The identity of an entry of a manifest."""
    return entry["data_file"]["file_path"], entry["data_file"].get("referenced_data_file")


@dataclass
class IcebergFiles:
    """The Iceberg files of one table; new ones have this version, and wait in memory until ``flush``."""

    io: FileIO
    paths: TablePaths
    version: int
    _waiting: dict[str, bytes] = field(default_factory=dict)

    def location(self, name: str) -> str:
        """The location of an Iceberg file."""
        return uri_of(self.io.absolute(self.paths.iceberg_file(name)))

    def put(self, location: str, data: bytes) -> None:
        """Writes a file with the next ``flush``."""
        self._waiting[self._path(location)] = data

    def write_manifest(self, entries: Sequence[Entry], draft: Draft, content: int = DATA) -> ManifestRecord:
        """Writes entries as a manifest of a snapshot; returns its record for the manifest list.

        Readers number the rows of added files from the record's ``first_row_id`` on. So a snapshot has one manifest
        with added data files.
        """
        kind, end = _CONTENTS[content]
        data = self._encode(
            _manifest_schema(draft.schema, self.version),
            [_without_number(e) if e["status"] == ADDED else e for e in entries],
            {
                "schema": json.dumps(iceberg_schema(draft.schema)),
                "schema-id": str(draft.schema.id),
                "partition-spec": json.dumps(partition_spec(draft.schema)),
                "partition-spec-id": "0",
                "format-version": str(self.version),
                "content": kind,
            },
        )
        location = self.location(f"{hash_of(data)}-{end}.avro")
        self.put(location, data)
        counts: dict[str, int] = {}
        for status, word in _COUNTS.items():
            rows = [e["data_file"]["record_count"] for e in entries if e["status"] == status]
            counts |= {f"{word}_files_count": len(rows), f"{word}_rows_count": sum(rows)}
        live = [e["sequence_number"] for e in entries if e["status"] != DELETED]
        return {
            "manifest_path": location,
            "manifest_length": len(data),
            "partition_spec_id": 0,
            "content": content,
            "sequence_number": draft.id,
            "min_sequence_number": min(live, default=draft.id),
            "added_snapshot_id": draft.id,
            **counts,
            "partitions": None,
            "first_row_id": draft.first_row_id if content == DATA else None,
        }

    def write_list(self, manifests: Sequence[ManifestRecord], draft: Draft, parent: int | None) -> str:
        """Writes a manifest list; returns its location."""
        header = {
            "snapshot-id": str(draft.id),
            "sequence-number": str(draft.id),
            "format-version": str(self.version),
        }
        if parent is not None:
            header["parent-snapshot-id"] = str(parent)
        if draft.first_row_id is not None:
            header["first-row-id"] = str(draft.first_row_id)
        data = self._encode(_list_schema(self.version), manifests, header)
        location = self.location(f"snap-{draft.id}-{hash_of(data)}.avro")
        self.put(location, data)
        return location

    def read_manifest(self, manifest: ManifestRecord) -> list[Entry]:
        """The entries of a manifest that are not deleted, with their row numbers. Raises NotFound, Corrupt."""
        entries = [e for e in self._read(manifest["manifest_path"]) if e["status"] != DELETED]
        number = manifest.get("first_row_id")
        for file in (e["data_file"] for e in entries):
            if number is not None and file.get("first_row_id") is None:
                file["first_row_id"] = number
                number += file["record_count"]
        return entries

    def read_list(self, location: str) -> list[ManifestRecord]:
        """The manifests of a manifest list that have files. Raises NotFound, Corrupt."""
        return [m for m in self._read(location) if m["added_files_count"] + m["existing_files_count"]]

    def named_files(self, location: str) -> set[str]:
        """The locations of the files that a manifest list names: all manifests, and Puffin files."""
        manifests = self._read(location)
        deletes = [e for m in manifests if m["content"] == DELETES for e in self.read_manifest(m)]
        return {m["manifest_path"] for m in manifests} | {e["data_file"]["file_path"] for e in deletes}

    def delete(self, location: str) -> None:
        """Deletes an Iceberg file. Raises Corrupt for another file, which is not touched."""
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


def hash_of(data: bytes) -> str:
    """The content of a file in a name."""
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


def _without_number(entry: Entry) -> Entry:
    """The entry of an added file, whose number readers take from the manifest list."""
    return {**entry, "data_file": {**entry["data_file"], "first_row_id": None}}


def _manifest_schema(schema: TableSchema, version: int) -> Json:
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
    if version >= VECTORS_VERSION:
        data_file += [
            _column("first_row_id", _optional("long"), 142),
            _column("referenced_data_file", _optional("string"), 143),
            _column("content_offset", _optional("long"), 144),
            _column("content_size_in_bytes", _optional("long"), 145),
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
_LIST_COLUMNS: Final = (
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
)


def _list_schema(version: int) -> Json:
    numbers = [_column("first_row_id", _optional("long"), 520)] if version >= VECTORS_VERSION else []
    return {"type": "record", "name": "manifest_file", "fields": [*_LIST_COLUMNS, *numbers]}
