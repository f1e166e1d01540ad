"""What the systems without Spark share: they give Arrow tables, and the sums are taken of those."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from systems.base import COLUMNS


class ArrowSystem(ABC):
    """``read`` and ``write`` are what differs."""

    truth = "live"

    def __init__(self, place: Path, jars: list[str]) -> None:
        self.place = place

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Commits rows, with a boolean column ``deleted`` in a batch."""

    @abstractmethod
    def read(
        self, columns: tuple[str, ...], key: int | None = None, between: tuple[int, int] | None = None
    ) -> pa.Table:
        """The live rows of one key, of a range of keys (both ends in it), or all."""

    def base_load(self, files: str) -> None:
        self.write(pq.read_table(files))

    def upsert(self, file: str) -> None:
        self.write(pq.read_table(file))

    def scan_agg(self) -> dict[str, Any]:
        return sums(self.read(COLUMNS))

    def scan_pruned(self) -> float:
        return float(pc.sum(self.read(("amount",)).column(0)).as_py())

    def point(self, key: int) -> dict[str, Any] | None:
        found = self.read(COLUMNS, key=key).to_pylist()
        return found[0] if found else None

    def range(self, low: int, high: int) -> dict[str, Any]:
        return sums(self.read(COLUMNS, between=(low, high)))

    def stop(self) -> None:  # noqa: B027 - nothing to do is the whole of it
        """Nothing runs beside this process."""


def sums(rows: pa.Table) -> dict[str, Any]:
    """The answer to ``ALL_SUMS``."""
    return {
        "count": rows.num_rows,
        "ids": pc.sum(rows["id"]).as_py(),
        "groups": pc.sum(rows["grp"]).as_py(),
        "amounts": pc.sum(rows["amount"]).as_py(),
        "names": pc.sum(pc.binary_length(rows["name"])).as_py(),
        "payloads": pc.sum(pc.binary_length(rows["payload"])).as_py(),
        "newest": pc.max(rows["ts"]).as_py(),
    }
