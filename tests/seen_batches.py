"""What a streaming query hands to ``foreachBatch``, kept in files: on Spark Connect it runs in the server's Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakelog.spark.compat.arrow import collected


@dataclass(frozen=True)
class SeenBatches:
    """One file for each micro-batch, in the order in which they came; ``take`` is for ``foreachBatch``."""

    directory: Path

    def take(self, batch: Any, _: int) -> None:
        """Keeps the rows of a micro-batch."""
        self.directory.mkdir(parents=True, exist_ok=True)
        rows = collected(batch.coalesce(1))
        name = f"{len(list(self.directory.glob('*.arrow'))):06}"
        with pa.ipc.new_file(self.directory / f"{name}.part", rows.schema) as writer:
            writer.write_table(rows)
        (self.directory / f"{name}.part").rename(self.directory / f"{name}.arrow")

    def batches(self) -> list[pa.Table]:
        """The rows of each micro-batch so far."""
        return [pa.ipc.open_file(path.read_bytes()).read_all() for path in sorted(self.directory.glob("*.arrow"))]

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, in the order of the micro-batches."""
        return [row for batch in self.batches() for row in batch.to_pylist()]

    def tuples(self, *columns: str) -> list[tuple[Any, ...]]:
        """All rows so far as tuples of these columns, of all when none is named."""
        found = (batch.select(columns or batch.column_names) for batch in self.batches())
        return [tuple(row) for batch in found for row in _rows_of(batch)]


def _rows_of(batch: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
