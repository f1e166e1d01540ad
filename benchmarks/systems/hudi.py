"""Apache Hudi on Spark: merge on read with eight buckets by a simple bucket index, then its compaction."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as sf

from systems.base import COLUMNS, SparkSystem

_OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "8",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.upsert.shuffle.parallelism": "2",
}


class Hudi(SparkSystem):
    """A column ``version`` orders the rows of a key, as Hudi wants it."""

    def own_settings(self) -> dict[str, str]:
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }

    def base_load(self, files: str) -> None:
        self.version = 0
        self._write(self.rows(files).select(*COLUMNS), "bulk_insert", "overwrite")

    def upsert(self, file: str) -> None:
        rows = self.rows(file).withColumnRenamed("deleted", "_hoodie_is_deleted")
        self._write(rows, "upsert", "append")

    def compact(self) -> None:
        self.spark.sql(f"call run_compaction(op => 'schedule', path => '{self.place}/table')").collect()
        self.spark.sql(f"call run_compaction(op => 'run', path => '{self.place}/table')").collect()
        self._show()

    def _write(self, rows: Any, operation: str, mode: str) -> None:
        self.version += 1
        if "_hoodie_is_deleted" not in rows.columns:
            rows = rows.withColumn("_hoodie_is_deleted", sf.lit(False))
        versioned = rows.withColumn("version", sf.lit(self.version))
        writer = versioned.write.format("hudi").options(**_OPTIONS)
        writer.option("hoodie.datasource.write.operation", operation).mode(mode).save(str(self.place / "table"))
        self._show()

    def _show(self) -> None:
        self.spark.read.format("hudi").load(str(self.place / "table")).createOrReplaceTempView("t")


SYSTEM = Hudi
