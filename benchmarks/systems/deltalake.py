"""Delta Lake without Spark: the deltalake wheel, its merge and its DataFusion queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from systems.base import ALL_SUMS, COLUMNS


class DeltaLake:
    """Every merge rewrites the files that it touches."""

    truth = "live"

    def __init__(self, place: Path, jars: list[str]) -> None:
        self.path = str(place / "table")

    def start(self) -> None:
        pass

    def base_load(self, files: str) -> None:
        write_deltalake(self.path, ds.dataset(files).scanner().to_reader())

    def upsert(self, file: str) -> None:
        rows = ds.dataset(file).to_table()
        values = {name: f"s.{name}" for name in COLUMNS}
        merge = DeltaTable(self.path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merge = merge.when_matched_delete("s.deleted").when_matched_update(values, "not s.deleted")
        merge.when_not_matched_insert(values, "not s.deleted").execute()

    def scan_agg(self) -> dict[str, Any]:
        return self._one(ALL_SUMS.format(table="t"))

    def scan_pruned(self) -> float:
        return float(self._one("select sum(amount) as s from t")["s"])

    def point(self, key: int) -> dict[str, Any] | None:
        found = self._rows(f"select {', '.join(COLUMNS)} from t where id = {key}")
        return found[0] if found else None

    def range(self, low: int, high: int) -> dict[str, Any]:
        return self._one(ALL_SUMS.format(table="t") + f" where id between {low} and {high}")

    def plan(self) -> None:
        DeltaTable(self.path).file_uris()

    def compact(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def stop(self) -> None:
        pass

    def _one(self, text: str) -> dict[str, Any]:
        return self._rows(text)[0]

    def _rows(self, text: str) -> list[dict[str, Any]]:
        import pyarrow as pa

        found = QueryBuilder().register("t", DeltaTable(self.path)).execute(text)
        return pa.table(found.read_all()).to_pylist()


SYSTEM = DeltaLake
