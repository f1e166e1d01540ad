"""lakelog on Spark: ``write-only`` while batches come, as Paimon is measured, then one full compaction."""

from __future__ import annotations

from typing import Any

from lakelog import connect
from systems.base import SparkSystem, session_settings

CREATE = """create table bench.t (id bigint, grp int, amount double, name string, payload string, ts timestamp,
primary key (id)) using lakelog tblproperties ('bucket' = '8', 'write-only' = '{write_only}'{more})"""
_KIND = "case when deleted then '-D' else '+I' end as _row_kind"


class Lakelog(SparkSystem):
    """SQL as a user writes it."""

    table = "bench.t"
    options: dict[str, str] = {}
    write_only = "true"

    def start(self) -> None:
        self.lake = connect(warehouse=str(self.place / "warehouse"), settings=session_settings(self.place))
        self.spark = self.lake.spark
        self.spark.sql("select 1").collect()

    def sql(self, text: str) -> Any:
        return self.lake.sql(text)

    def base_load(self, files: str) -> None:
        more = "".join(f", '{key}' = '{value}'" for key, value in self.options.items())
        self.lake.sql("create database if not exists bench")
        self.lake.sql(CREATE.format(write_only=self.write_only, more=more))
        self.rows(files).createOrReplaceTempView("given")
        self.lake.sql("insert into bench.t select id, grp, amount, name, payload, ts from given")

    def upsert(self, file: str) -> None:
        self.rows(file).createOrReplaceTempView("given")
        self.lake.sql(f"insert into bench.t select id, grp, amount, name, payload, ts, {_KIND} from given")

    def compact(self) -> None:
        self.lake.table("bench.t").compact()

    def stop(self) -> None:
        self.lake.close()
        super().stop()


SYSTEM = Lakelog
