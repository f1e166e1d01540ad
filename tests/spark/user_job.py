"""A user's program with a local session of its own: argv is the warehouse; prints what tables have in the end."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from lakelog import attach, connect

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
own = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
with connect(own, warehouse=sys.argv[1]) as lake:
    lake.sql("create table db.t (id bigint) using lakelog")
    lake.sql("insert into db.t select id from range(100)")
    total = lake.sql("select sum(id) from db.t").first()
    sys.stdout.write(f"{total[0]}\n")
with attach(own, sys.argv[1]):
    own.catalog.setCurrentDatabase("db")
    others = own.newSession().table("db.t").count(), SparkSession.getActiveSession().table("db.t").count()
    sys.stdout.write(f"{others} {own.catalog.currentDatabase()}\n")
