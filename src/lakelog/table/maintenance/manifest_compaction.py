"""Writes the manifests of a table again, in as few files as there can be (what Paimon calls compact_manifest)."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.metadata.manifest_compaction import are_few
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import carried_state


@dataclass(frozen=True)
class ManifestSummary:
    """Number and bytes of the manifests before and after; ``snapshot`` is None where there was nothing to gain."""

    snapshot: Snapshot | None
    manifests_before: int
    manifests_after: int
    bytes_before: int
    bytes_after: int


def compact_manifests(table: DynamicTable) -> ManifestSummary:
    """Forgets what was added and deleted again, joins the rest, ordered by partition and bucket, in one snapshot.

    Called when planning has become slow before writers have done it by themselves
    (``manifest.full-compaction-threshold-size``). The data files stay as they are. Raises CommitConflict,
    CommitUnknown, UnsupportedFeature for a table that must not be written.
    """
    store = table.store
    latest = store.latest_snapshot()
    before = [] if latest is None else store.manifests.manifests_of(latest)
    count, size = len(before), sum(m.file_size for m in before)
    if are_few(before, table.schema):
        return ManifestSummary(None, count, count, size, size)
    snapshot = store.commit(
        CommitRequest(
            f"manifests-{new_uuid()}",
            0,
            COMPACT,
            allow_empty=True,
            prepare=lambda s: carried_state(store, s),
            first_try=True,
            rewrite_manifests=True,
        )
    )
    after = store.manifests.manifests_of(snapshot)
    return ManifestSummary(snapshot, count, len(after), size, sum(m.file_size for m in after))
