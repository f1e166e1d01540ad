"""CALL sys.compact_manifest."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Procedure
from lakelog.sql.runtime.statement import counts_row
from lakelog.table.maintenance.compaction_commit import compact_manifests
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable) -> pa.Table:
    done = compact_manifests(table)
    counts = {
        "snapshot_id": None if done.snapshot is None else done.snapshot.id,
        "manifests_before": done.manifests_before,
        "manifests_after": done.manifests_after,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }
    return counts_row(counts)


COMPACT_MANIFEST = Procedure("compact_manifest", (), _run)
"""Writes the manifests again, in as few files as there can be; data files stay as they are."""
