"""Apache Iceberg on Spark: format version 3, merge on read, eight buckets, then ``rewrite_data_files``."""

from __future__ import annotations

from systems.base import SparkSystem
from systems.delta import MERGE

_CREATE = """create table lake.db.t (id bigint, grp int, amount double, name string, payload string, ts timestamp)
using iceberg partitioned by (bucket(8, id)) tblproperties ('format-version' = '3',
'write.merge.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read')"""


class Iceberg(SparkSystem):
    """A Hadoop catalog, so that no server is needed."""

    table = "lake.db.t"

    def own_settings(self) -> dict[str, str]:
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(self.place / "warehouse"),
        }

    def base_load(self, files: str) -> None:
        self.spark.sql(_CREATE)
        self.rows(files).writeTo(self.table).append()

    def upsert(self, file: str) -> None:
        self.rows(file).createOrReplaceTempView("given")
        self.spark.sql(MERGE.replace("merge into t ", f"merge into {self.table} t "))

    def compact(self) -> None:
        self.spark.sql("call lake.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")


SYSTEM = Iceberg
