"""``$statistics``: the result of ANALYZE."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from lakelog.paimon.metadata import table_statistics as statistics
from lakelog.paimon.types.checked_values import read_as
from lakelog.table.system.metadata import LONG, TEXT, Columns, MetadataTable, needed


class TableStatistics(MetadataTable):
    """One row, or none if the table was not analyzed since its last schema change."""

    COLUMNS: ClassVar[Columns] = (
        ("snapshot_id", needed(LONG)),
        ("schema_id", needed(LONG)),
        ("mergedRecordCount", LONG),
        ("mergedRecordSize", LONG),
        ("colstat", TEXT),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The statistics."""
        store, snapshot = self.table.store, self.snapshot()
        if snapshot is None or snapshot.statistics is None:
            return
        path = store.paths.statistics_file(snapshot.statistics)
        found = read_as(store.io, path, orjson.loads)
        read_as(store.io, path, statistics.TableStatistics.from_json)
        columns = json.dumps(found.get("colStats") or {}, indent=2, separators=(",", " : "), ensure_ascii=False)
        counts = found.get("mergedRecordCount"), found.get("mergedRecordSize")
        yield found["snapshotId"], found["schemaId"], *counts, columns
