"""Refuses to read a table with a feature that would make the result wrong."""

from __future__ import annotations

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.manifests import Manifests
from lakelog.filestore.reader import engine_of
from lakelog.format.avro_file import read_records
from lakelog.options.option import Options
from lakelog.options.table import DELETION_VECTORS, SEQUENCE_FIELD
from lakelog.spec.manifest import index_entry_from_record
from lakelog.spec.schema import TableSchema
from lakelog.spec.snapshot import Snapshot

_VECTORS = "DELETION_VECTORS"


def check_readable(schema: TableSchema, snapshot: Snapshot | None, manifests: Manifests) -> None:
    """Raises UnsupportedFeature naming the merge engine, the sequence field or the deletion vectors of a table.

    Called before a plan. Deletion vectors are looked for in the snapshot itself too: whatever the options say now.
    """
    options = Options(schema.options)
    if schema.is_keyed:
        engine_of(schema)
        field = options.get_typed(SEQUENCE_FIELD)
        if field:
            raise UnsupportedFeature(f"option 'sequence.field' = '{field}' is not supported: use another engine")
    if options.need(DELETION_VECTORS):
        raise UnsupportedFeature("option 'deletion-vectors.enabled' = 'true' is not supported: use another engine")
    if snapshot is None or snapshot.index_manifest is None:
        return
    data = manifests.io.read(manifests.paths.manifest(snapshot.index_manifest))
    for entry in (index_entry_from_record(record) for record in read_records(data)):
        if entry.index_type == _VECTORS:
            raise UnsupportedFeature(f"snapshot {snapshot.id} has deletion vectors ({entry.file_name}): not supported")
