"""A small reader of Iceberg metadata that uses no other file of the table."""

from __future__ import annotations

import io as streams
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.io.storage.file_io import FileIO

FIELD_ID = b"PARQUET:field_id"


class IcebergReader:
    """The table in a directory, from its version hint on."""

    def __init__(self, io: FileIO, root: str) -> None:
        self.io, self.root = io, root
        self.version = int(io.read(f"{root}/metadata/version-hint.text"))
        self.metadata: dict[str, Any] = orjson.loads(io.read(f"{root}/metadata/v{self.version}.metadata.json"))
        self.snapshots = {s["snapshot-id"]: s for s in self.metadata["snapshots"]}

    @property
    def tags(self) -> dict[str, int]:
        refs = self.metadata["refs"].items()
        return {name: ref["snapshot-id"] for name, ref in refs if ref["type"] == "tag"}

    def manifests(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        snapshot = self.snapshots[snapshot_id or self.metadata["current-snapshot-id"]]
        return self._avro(snapshot["manifest-list"])

    def entries(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        found = [e for m in self.manifests(snapshot_id) for e in self._avro(m["manifest_path"])]
        return [e for e in found if e["status"] != 2]

    def rows(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """All rows, with the columns of the current schema (of the snapshot's, if one is named), by field id."""
        current = self.metadata["current-schema-id"]
        number = current if snapshot_id is None else self.snapshots[snapshot_id]["schema-id"]
        schema = next(s for s in self.metadata["schemas"] if s["schema-id"] == number)
        names = {str(f["id"]).encode(): f["name"] for f in schema["fields"]}
        out = []
        for entry in self.entries(snapshot_id):
            file = entry["data_file"]
            data = self.io.read(self._path(file["file_path"]))
            assert len(data) == file["file_size_in_bytes"]
            table = pq.read_table(pa.BufferReader(data))
            assert table.num_rows == file["record_count"]
            for row in table.to_pylist():
                ids = {f.metadata[FIELD_ID]: row[f.name] for f in table.schema}
                out.append({name: ids.get(number) for number, name in names.items()})
        return sorted(out, key=repr)

    def _avro(self, location: str) -> list[dict[str, Any]]:
        return list(fastavro.reader(streams.BytesIO(self.io.read(self._path(location)))))

    def _path(self, location: str) -> str:
        path = location.removeprefix("file://")
        assert path.startswith(f"{self.root}/"), location
        return path
