"""``$iceberg``: the snapshots that readers of the Iceberg metadata see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from lakelog.filestore.iceberg.table_metadata import LEFT_OUT, SHOWN, MetadataFiles
from lakelog.paimon.types.types import AtomicType
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed

_YES: Final = AtomicType("BOOLEAN")


class IcebergSnapshots(MetadataTable):
    """One row per Iceberg snapshot, oldest first; none without Iceberg metadata."""

    COLUMNS: ClassVar[Columns] = (
        ("snapshot_id", needed(LONG)),
        ("is_current", needed(_YES)),
        ("is_complete", _YES),
        ("files_shown", TEXT),
        ("commit_time", needed(TIME)),
        ("schema_id", needed(LONG)),
        ("data_files", LONG),
        ("records", LONG),
        ("files_left_out", LONG),
        ("deletion_vectors", LONG),
        ("tags", TEXT),
        ("manifest_list", needed(TEXT)),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The Iceberg snapshots of the current metadata file."""
        store = self.table.store
        files = MetadataFiles(store.io, store.paths)
        version = files.hint()
        metadata = None if version is None else files.read(version)
        if metadata is None:
            return
        for snapshot in metadata.snapshots:
            summary = snapshot.summary
            left_out, rows = _number(summary.get(LEFT_OUT)), _number(summary.get("total-records"))
            deleted = _number(summary.get("total-position-deletes"))
            yield (
                snapshot.id,
                snapshot.id == metadata.current,
                None if left_out is None else left_out == 0,
                summary.get(SHOWN),
                local_time(snapshot.time_millis),
                snapshot.schema_id,
                _number(summary.get("total-data-files")),
                None if rows is None or deleted is None else rows - deleted,
                left_out,
                _number(summary.get("total-delete-files")),
                ", ".join(sorted(name for name, at in metadata.tags.items() if at == snapshot.id)) or None,
                snapshot.manifest_list,
            )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
