"""lakelog without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakelog import connect
from systems.arrow_system import ArrowSystem
from systems.lakelog import CREATE


class LakelogPython(ArrowSystem):
    """Arrow tables through ``Table.writer`` and ``Table.scan``."""

    def start(self) -> None:
        self.lake = connect(warehouse=str(self.place / "warehouse"))
        self.lake.sql("create database bench")
        self.lake.sql(CREATE.format(write_only="true", more=""))
        self.table = self.lake.table("bench.t")

    def write(self, rows: pa.Table) -> None:
        if "deleted" in rows.column_names:
            kinds = pc.if_else(rows["deleted"], "-D", "+I")
            rows = rows.drop_columns("deleted").append_column("_row_kind", kinds)
        with self.table.writer() as writer:
            writer.write(rows)

    def read(
        self, columns: tuple[str, ...], key: int | None = None, between: tuple[int, int] | None = None
    ) -> pa.Table:
        wanted = None if key is None else f"id = {key}"
        wanted = wanted if between is None else f"id between {between[0]} and {between[1]}"
        return self.table.scan(columns=columns, filter=wanted).to_arrow()

    def plan(self) -> None:
        self.table.scan().plan()

    def compact(self) -> None:
        self.table.compact()


SYSTEM = LakelogPython
