"""Apache Paimon on Spark: the connector that the registries have; write-only batches, then its compact procedure."""

from __future__ import annotations

from systems.base import COLUMNS, SparkSystem

_CREATE = """create table paimon.db.t (id bigint, grp int, amount double, name string, payload string, ts timestamp,
kind string) using paimon tblproperties ('primary-key' = 'id', 'bucket' = '8', 'write-only' = 'true',
'file.format' = 'parquet', 'rowkind.field' = 'kind')"""


class Paimon(SparkSystem):
    """Deletes are rows whose ``kind`` says so: the connector takes no row kinds otherwise."""

    table = "paimon.db.t"

    def own_settings(self) -> dict[str, str]:
        return {
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": str(self.place / "warehouse"),
        }

    def base_load(self, files: str) -> None:
        self.spark.sql("create database if not exists paimon.db")
        self.spark.sql(_CREATE)
        self.rows(files).createOrReplaceTempView("given")
        self.spark.sql(f"insert into {self.table} select {', '.join(COLUMNS)}, '+I' from given")

    def upsert(self, file: str) -> None:
        self.rows(file).createOrReplaceTempView("given")
        kind = "case when deleted then '-D' else '+I' end"
        self.spark.sql(f"insert into {self.table} select {', '.join(COLUMNS)}, {kind} from given")

    def compact(self) -> None:
        self.spark.sql("call paimon.sys.compact(table => 'db.t')")


SYSTEM = Paimon
