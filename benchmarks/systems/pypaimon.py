"""pypaimon: Apache Paimon in Python; it has no compaction, and its writers take no deletes."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pypaimon import CatalogFactory, Schema

from systems.arrow_system import ArrowSystem

_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("grp", pa.int32()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("payload", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)


class PyPaimon(ArrowSystem):
    """Batches are written without their deletes, which ``truth`` says."""

    truth = "undeleted"
    options: ClassVar[dict[str, str]] = {}

    def start(self) -> None:
        catalog = CatalogFactory.create({"warehouse": str(self.place / "warehouse")})
        catalog.create_database("bench", False)
        options = {"bucket": "8", "write-only": "true", "file.format": "parquet", **self.options}
        schema = Schema.from_pyarrow_schema(_COLUMNS, primary_keys=["id"], options=options)
        catalog.create_table("bench.t", schema, False)
        self.table = catalog.get_table("bench.t")

    def write(self, rows: pa.Table) -> None:
        if "deleted" in rows.column_names:
            rows = rows.filter(pc.invert(rows["deleted"])).drop_columns("deleted")
        builder = self.table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows.cast(_COLUMNS))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def read(
        self, columns: tuple[str, ...], key: int | None = None, between: tuple[int, int] | None = None
    ) -> pa.Table:
        builder = self.table.new_read_builder().with_projection(list(columns))
        predicates = builder.new_predicate_builder()
        if key is not None:
            builder = builder.with_filter(predicates.equal("id", key))
        if between is not None:
            builder = builder.with_filter(predicates.between("id", *between))
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def plan(self) -> None:
        self.table.new_read_builder().new_scan().plan()


SYSTEM = PyPaimon
