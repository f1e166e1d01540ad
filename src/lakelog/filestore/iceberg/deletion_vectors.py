"""The deletion vectors of a snapshot as Iceberg's readers see them: Puffin files, and their entries in manifests.

A Puffin file has the vectors of one index file. An index file never changes, so a vector that did not change is named
again without a read. Source: Iceberg's Puffin specification, blob type ``deletion-vector-v1``. Such a blob has the
bytes of a 64-bit vector of Apache Paimon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from lakelog.filestore.iceberg.data_files import new_entry
from lakelog.filestore.iceberg.manifests import Draft, Entry, IcebergFiles, Key, hash_of
from lakelog.filestore.metadata.manifests import DELETION_VECTORS, IndexManifests, Manifests
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef, read_vectors, vector_refs
from lakelog.paimon.index.deletion_vector import Positions, encode_vector
from lakelog.paimon.metadata.manifest import IndexManifestEntry, ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot

_MAGIC: Final = b"PFA1"
_BLOB_TYPE: Final = "deletion-vector-v1"
_POSITION_FIELD: Final = 2147483645
"""Field id of the metadata column ``_pos``."""
_NOT_KNOWN: Final = -1
"""Snapshot and sequence number in the metadata of a blob; the specification requires it."""
_END: Final = struct.Struct("<i4x4s")
"""Size of the footer's payload, flags, magic bytes."""


@dataclass(frozen=True)
class Blob:
    """Range of a deletion vector in a Puffin file; ``cardinality`` is its number of deleted rows."""

    offset: int
    length: int
    cardinality: int


def puffin_file(vectors: Mapping[str, Positions]) -> tuple[bytes, dict[str, Blob]]:
    """A Puffin file with the vectors of data files by location, and their ranges; empty vectors are left out."""
    data = bytearray(_MAGIC)
    blobs: dict[str, Blob] = {}
    for location, positions in vectors.items():
        if len(positions):
            vector = encode_vector(positions, wide=True)
            blobs[location] = Blob(len(data), len(vector), len(positions))
            data += vector
    footer = orjson.dumps({"blobs": [_metadata(*item) for item in blobs.items()], "properties": {}})
    data += _MAGIC + footer + _END.pack(len(footer), _MAGIC)
    return bytes(data), blobs


def _metadata(location: str, blob: Blob) -> dict[str, object]:
    return {
        "type": _BLOB_TYPE,
        "fields": [_POSITION_FIELD],
        "snapshot-id": _NOT_KNOWN,
        "sequence-number": _NOT_KNOWN,
        "offset": blob.offset,
        "length": blob.length,
        "properties": {"referenced-data-file": location, "cardinality": str(blob.cardinality)},
    }


_ENDING: Final = "-deletes.puffin"


@dataclass(frozen=True)
class VectorFile:
    """The vectors of one index file: those of exported data files, by their location.

    ``source`` identifies the index file and the data files. It is the first part of the name of the Puffin file.
    """

    source: str
    vectors: Mapping[str, tuple[ManifestEntry, DeletionVectorRef]]


@dataclass(frozen=True)
class ExportedVectors:
    """The deletion vectors of exported data files."""

    manifests: Manifests
    files: IcebergFiles

    def of(self, snapshot: Snapshot, exported: Mapping[str, ManifestEntry]) -> list[VectorFile]:
        """The vectors of a snapshot; ``exported`` are its data files by location."""
        by_name = {(e.partition, e.bucket, e.file.file_name): (name, e) for name, e in exported.items()}
        index = IndexManifests(self.manifests).entries(snapshot)
        files = (self._file(entry, by_name) for entry in index if entry.index_type == DELETION_VECTORS)
        return [file for file in files if file.vectors]

    def _file(
        self, entry: IndexManifestEntry, exported: Mapping[tuple[bytes, int, str], tuple[str, ManifestEntry]]
    ) -> VectorFile:
        vectors = {}
        source: list[str] = []
        for bucket_key, refs in vector_refs([entry], self.manifests.paths).items():
            for ref in refs:
                source = [self.manifests.io.absolute(ref.path)]
                exported_file = exported.get((*bucket_key, ref.data_file))
                if exported_file is not None and ref.cardinality != 0:
                    vectors[exported_file[0]] = exported_file[1], ref
        return VectorFile(hash_of(repr([source, *sorted(vectors)]).encode()), vectors)

    def added(self, file: VectorFile, draft: Draft) -> list[Entry]:
        """Writes a Puffin file; returns the entries of its vectors. Raises NotFound, Corrupt."""
        vectors = read_vectors(self.manifests.io, (ref for _, ref in file.vectors.values()))
        data, blobs = puffin_file({name: vectors[ref.data_file] for name, (_, ref) in sorted(file.vectors.items())})
        location = self.files.location(f"{file.source}-{hash_of(data)}{_ENDING}")
        if blobs:
            self.files.put(location, data)
        return [
            new_entry(
                file.vectors[name][0],
                draft,
                {
                    "content": 1,
                    "file_path": location,
                    "file_format": "PUFFIN",
                    "record_count": blob.cardinality,
                    "file_size_in_bytes": len(data),
                    "referenced_data_file": name,
                    "content_offset": blob.offset,
                    "content_size_in_bytes": blob.length,
                },
            )
            for name, blob in blobs.items()
        ]


def puffin_locations(keys: Iterable[Key]) -> dict[str, str]:
    """The locations of Puffin files by the ``source`` of their vectors."""
    locations = {location for location, data_file in keys if data_file is not None}
    return {location.rpartition("/")[2].partition("-")[0]: location for location in locations}
