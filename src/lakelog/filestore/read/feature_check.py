"""Refuses to read a table with a feature that would make the result wrong."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.read.data_file_reader import check_whole
from lakelog.filestore.read.split_reader import engine_of
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.schema.schema import TableSchema


def check_readable(schema: TableSchema) -> None:
    """Raises InvalidRequest for options that do not say how rows of one key are merged. Called before a plan."""
    if schema.is_keyed:
        engine_of(schema)


def check_files(entries: Iterable[ManifestEntry], schemas: Schemas) -> None:
    """Raises UnsupportedFeature for live files that hold only some columns of their rows. Called in a plan."""
    for entry in entries:
        if entry.file.write_cols is not None:
            check_whole(entry.file, schemas.get(entry.file.schema_id))
