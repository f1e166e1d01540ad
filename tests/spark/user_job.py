"""A user's program with a local session of its own, which a query with a log ends: prints what tables have.

usage: user_job.py WAREHOUSE INPUT CHECKPOINT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from lakelog import attach, connect

warehouse, directory, checkpoint = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
own = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
with connect(own, warehouse=warehouse) as lake:
    lake.sql("create table db.t (id bigint) using lakelog")
    lake.sql("insert into db.t select id from range(100)")
    total = lake.sql("select sum(id) from db.t").first()
    sys.stdout.write(f"{total[0]}\n")
with attach(own, warehouse):
    own.catalog.setCurrentDatabase("db")
    others = own.newSession().table("db.t").count(), SparkSession.getActiveSession().table("db.t").count()
    sys.stdout.write(f"{others} {own.catalog.currentDatabase()}\n")
connect(own, warehouse=warehouse)
frame = own.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", 1).json(directory)
writer = frame.writeStream.format("lakelog").option("path", f"{warehouse}/db.db/ended")
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
