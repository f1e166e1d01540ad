"""Delta Lake on Spark: MERGE with deletion vectors, then OPTIMIZE."""

from __future__ import annotations

from systems.base import SparkSystem

MERGE = """merge into t using given on t.id = given.id
when matched and given.deleted then delete
when matched then update set grp = given.grp, amount = given.amount, name = given.name, payload = given.payload,
    ts = given.ts
when not matched and not given.deleted then insert (id, grp, amount, name, payload, ts)
    values (given.id, given.grp, given.amount, given.name, given.payload, given.ts)"""


class Delta(SparkSystem):
    """No buckets and no order of keys."""

    def own_settings(self) -> dict[str, str]:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        }

    def base_load(self, files: str) -> None:
        self.spark.sql(
            "create table t (id bigint, grp int, amount double, name string, payload string, ts timestamp) using delta "
            f"location '{self.place}/table'"
        )
        self.rows(files).write.format("delta").mode("append").saveAsTable("t")

    def upsert(self, file: str) -> None:
        self.rows(file).createOrReplaceTempView("given")
        self.spark.sql(MERGE)

    def compact(self) -> None:
        self.spark.sql("optimize t")


SYSTEM = Delta
