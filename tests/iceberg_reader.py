"""A small reader of Iceberg metadata that uses no other file of the table."""

from __future__ import annotations

import io as streams
import struct
import zlib
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

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

    @property
    def named(self) -> set[str]:
        """The names of all files in the directory ``metadata`` that the snapshots need."""
        named = {s["manifest-list"] for s in self.snapshots.values()}
        for at in self.snapshots:
            named |= {m["manifest_path"] for m in self.manifests(at)}
            named |= {e["data_file"]["file_path"] for e in self.deletes(at)}
        return {name.rpartition("/")[2] for name in named}

    def manifests(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        snapshot = self.snapshots[snapshot_id or self.metadata["current-snapshot-id"]]
        return self._avro(snapshot["manifest-list"])

    def entries(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """The entries of data files."""
        return self._entries(snapshot_id, 0)

    def deletes(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """The entries of deletion vectors."""
        return self._entries(snapshot_id, 1)

    def _entries(self, snapshot_id: int | None, content: int) -> list[dict[str, Any]]:
        found = []
        for manifest in self.manifests(snapshot_id):
            if manifest["content"] == content:
                number = manifest.get("first_row_id")
                for entry in self._avro(manifest["manifest_path"]):
                    if entry["status"] == 2:
                        continue
                    file = entry["data_file"]
                    assert file["content"] == content
                    if number is not None and file["first_row_id"] is None:
                        file["first_row_id"] = number
                        number += file["record_count"]
                    found.append(entry)
        return found

    def row_numbers(self, snapshot_id: int | None = None) -> dict[str, range]:
        """The numbers of the rows of each data file, as readers inherit them."""
        files = [entry["data_file"] for entry in self.entries(snapshot_id)]
        return {f["file_path"]: range(f["first_row_id"], f["first_row_id"] + f["record_count"]) for f in files}

    def vectors(self, snapshot_id: int | None = None) -> dict[str, set[int]]:
        """The deleted positions by data file, checked against the footer of their Puffin file."""
        sequence = {e["data_file"]["file_path"]: e["sequence_number"] for e in self.entries(snapshot_id)}
        out: dict[str, set[int]] = {}
        for entry in self.deletes(snapshot_id):
            file = entry["data_file"]
            name, start, size = (file[k] for k in ("referenced_data_file", "content_offset", "content_size_in_bytes"))
            data = self.io.read(self._path(file["file_path"]))
            assert name not in out, "a data file has at most one vector"
            assert entry["sequence_number"] >= sequence[name]
            assert len(data) == file["file_size_in_bytes"] and file["file_format"] == "PUFFIN"
            assert data[:4] == data[-4:] == b"PFA1" and data[-8:-4] == bytes(4)
            (length,) = struct.unpack("<i", data[-12:-8])
            assert data[-16 - length : -12 - length] == b"PFA1"
            blobs = orjson.loads(data[-12 - length : -12])["blobs"]
            (blob,) = [b for b in blobs if b["properties"]["referenced-data-file"] == name]
            assert (blob["type"], blob["offset"], blob["length"]) == ("deletion-vector-v1", start, size)
            assert (blob["snapshot-id"], blob["sequence-number"]) == (-1, -1)
            vector = data[start : start + size]
            assert struct.unpack(">i", vector[:4])[0] == size - 8
            assert vector[4:8] == b"\xd1\xd3\x39\x64"
            assert struct.unpack(">I", vector[-4:])[0] == zlib.crc32(vector[4:-4])
            out[name] = set(BitMap64.deserialize(vector[8:-4]))
            assert len(out[name]) == file["record_count"] == int(blob["properties"]["cardinality"])
        return out

    def rows(self, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        """All rows, with the columns of the current schema (of the snapshot's, if one is named), by field id."""
        current = self.metadata["current-schema-id"]
        number = current if snapshot_id is None else self.snapshots[snapshot_id]["schema-id"]
        schema = next(s for s in self.metadata["schemas"] if s["schema-id"] == number)
        names = {str(f["id"]).encode(): f["name"] for f in schema["fields"]}
        vectors = self.vectors(snapshot_id)
        out = []
        for entry in self.entries(snapshot_id):
            file = entry["data_file"]
            data = self.io.read(self._path(file["file_path"]))
            assert len(data) == file["file_size_in_bytes"]
            table = pq.read_table(pa.BufferReader(data))
            assert table.num_rows == file["record_count"]
            deleted = vectors.pop(file["file_path"], set())
            for position, row in enumerate(table.to_pylist()):
                ids = {f.metadata[FIELD_ID]: row[f.name] for f in table.schema}
                if position not in deleted:
                    out.append({name: ids.get(number) for number, name in names.items()})
        assert not vectors, "each vector is that of a data file of the snapshot"
        return sorted(out, key=repr)

    def _avro(self, location: str) -> list[dict[str, Any]]:
        return list(fastavro.reader(streams.BytesIO(self.io.read(self._path(location)))))

    def _path(self, location: str) -> str:
        path = location.removeprefix("file://")
        assert path.startswith(f"{self.root}/"), location
        return path
