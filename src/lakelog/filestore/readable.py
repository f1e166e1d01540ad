"""Refuses to read a table with a feature that would make the result wrong."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.data_file_reader import check_whole
from lakelog.filestore.index_manifests import DELETION_VECTORS, IndexManifests
from lakelog.filestore.manifests import Manifests
from lakelog.filestore.reader import engine_of
from lakelog.filestore.schemas import Schemas
from lakelog.spec.manifest import ManifestEntry
from lakelog.spec.schema import TableSchema
from lakelog.spec.snapshot import Snapshot


def check_readable(schema: TableSchema) -> None:
    """Raises InvalidRequest for options that do not say how rows of one key are merged. Called before a plan."""
    if schema.is_keyed:
        engine_of(schema)


def check_files(entries: Iterable[ManifestEntry], schemas: Schemas) -> None:
    """Raises UnsupportedFeature for live files that hold only some columns of their rows. Called in a plan."""
    for entry in entries:
        if entry.file.write_cols is not None:
            check_whole(entry.file, schemas.get(entry.file.schema_id))


def check_compactable(schema: TableSchema, snapshot: Snapshot | None, manifests: Manifests) -> None:
    """Raises UnsupportedFeature also for deletion vectors of a table without a primary key.

    Vectors are looked for in the snapshot itself, whatever the options say now.
    """
    check_readable(schema)
    if schema.is_keyed:
        return
    for entry in IndexManifests(manifests).entries(snapshot):
        if entry.index_type == DELETION_VECTORS:
            raise UnsupportedFeature(
                f"snapshot {snapshot.id if snapshot else 0} has deletion vectors ({entry.file_name}) and the table has "
                f"no primary key: it is read, not compacted; compact it with another engine"
            )
