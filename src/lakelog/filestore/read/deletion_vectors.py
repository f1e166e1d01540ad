"""Deletion vectors: lookup in a snapshot, read with a data file, write (format sheet 4.4, 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.filestore.metadata.manifests import DELETION_VECTORS
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.options.option import Options
from lakelog.options.table import WIDE_VECTORS
from lakelog.paimon.index.deletion_vector import (
    FILE_VERSION,
    Positions,
    decode_vector,
    encode_vector,
    length_in_manifest,
    size_of_vector,
)
from lakelog.paimon.metadata.manifest import ADD, DeletionVectorRange, IndexManifestEntry


@dataclass(frozen=True)
class DeletionVectorRef:
    """The location of a data file's deletion vector, which a split contains; the file's reader reads its bytes."""

    data_file: str
    path: str
    offset: int
    cardinality: int | None = None
    """The number of deleted rows; None from older writers."""


def vector_refs(
    entries: Iterable[IndexManifestEntry], paths: TablePaths
) -> dict[tuple[bytes, int], tuple[DeletionVectorRef, ...]]:
    """The vectors in index files, per (partition, bucket) of their data files."""
    out: dict[tuple[bytes, int], tuple[DeletionVectorRef, ...]] = {}
    for entry in entries:
        if entry.index_type != DELETION_VECTORS:
            continue
        path = paths.bucket_index_file(entry.partition, entry.bucket, entry.file_name, entry.external_path)
        refs = tuple(
            DeletionVectorRef(r.data_file, path, r.offset, r.cardinality) for r in entry.deletion_vectors or ()
        )
        ref = (entry.partition, entry.bucket)
        out[ref] = (*out.get(ref, ()), *refs)
    return out


def read_vector(io: FileIO, ref: DeletionVectorRef) -> Positions:
    """The deleted row positions of a data file, ascending.

    Called on executors, once per data file with a vector. Raises NotFound, Corrupt (naming the index file and the
    data file), UnsupportedFeature for an unknown kind of vector.
    """
    with io.open_input(ref.path) as source:
        return _vector_at(source, ref)


def read_vectors(io: FileIO, refs: Iterable[DeletionVectorRef]) -> dict[str, Positions]:
    """The deleted positions of many data files; each index file is read once. Raises as ``read_vector``."""
    by_path: dict[str, list[DeletionVectorRef]] = {}
    for ref in refs:
        by_path.setdefault(ref.path, []).append(ref)
    sources = ((pa.BufferReader(io.read(path)), refs_there) for path, refs_there in by_path.items())
    return {ref.data_file: _vector_at(source, ref) for source, refs_there in sources for ref in refs_there}


def _vector_at(source: pa.NativeFile, ref: DeletionVectorRef) -> Positions:
    try:
        source.seek(0)
        version = source.read(1)
        if version != bytes((FILE_VERSION,)):
            raise Corrupt(f"an index file of version {version.hex() or 'none'}: expected {FILE_VERSION}")
        source.seek(ref.offset)
        head = source.read(4)
        return decode_vector(head + source.read(size_of_vector(head) - len(head)))
    except Corrupt as why:
        raise Corrupt(f"deletion vector of data file '{ref.data_file}' in '{ref.path}': {why}") from None


def without_deleted(batch: pa.RecordBatch, first: int, deleted: Positions) -> pa.RecordBatch:
    """The rows of a batch that are not deleted; ``first`` is the position of its first row in the file."""
    start, stop = np.searchsorted(deleted, (first, first + batch.num_rows))
    if start == stop:
        return batch
    kept = np.ones(batch.num_rows, dtype=np.bool_)
    kept[deleted[start:stop] - first] = False
    return batch.filter(pa.array(kept)) if batch.num_columns else batch.take(pa.array(np.flatnonzero(kept)))


def vector_of(vectors: Sequence[DeletionVectorRef], data_file: str) -> DeletionVectorRef | None:
    """The vector of a data file among those of its split; a data file has at most one."""
    return next((v for v in vectors if v.data_file == data_file), None)


def write_vectors(
    io: FileIO, paths: TablePaths, partition: bytes, bucket: int, deleted: Mapping[str, Positions]
) -> IndexManifestEntry:
    """Writes an index file with the deletion vectors of a bucket's data files, not visible before a commit.

    Called by a compaction, or by a delete of rows from a table without a primary key. ``deletion-vectors.bitmap64``
    selects the kind of vectors.
    """
    wide = Options(paths.schema.options).need(WIDE_VECTORS)
    ranges: list[DeletionVectorRange] = []
    data = bytearray((FILE_VERSION,))
    for data_file, positions in sorted(deleted.items()):
        vector = encode_vector(positions, wide)
        ranges.append(DeletionVectorRange(data_file, len(data), length_in_manifest(vector), len(positions)))
        data += vector
    name = f"index-{new_uuid()}-0"
    io.write(paths.bucket_index_file(partition, bucket, name), bytes(data))
    return IndexManifestEntry(ADD, partition, bucket, DELETION_VECTORS, name, len(data), len(ranges), tuple(ranges))
