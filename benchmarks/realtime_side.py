"""The Spark process of the real-time benchmark and of the test on Kafka: one query, until its input ends.

usage: realtime_side.py read|write WAREHOUSE BOOTSTRAP TOPIC CHECKPOINT

``read`` sends the changes of ``db.t`` to the topic as JSON, ``write`` writes rows that come as JSON in the topic to the
log of ``db.t`` first. The connector's jars come from LAKELOG_KAFKA_JARS. Prints ``started`` and then waits.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as sf

from lakelog import LOW_LATENCY, connect

_BATCH = "5 minutes"
"""Spark's own default; between two batches a query stands still for about half a second."""
ROW = "id bigint, name string, sent_at double, _row_kind string"


def main() -> None:
    what, warehouse, bootstrap, topic, checkpoint = sys.argv[1:]
    settings = {**LOW_LATENCY, "spark.master": "local[4]"}
    with connect(warehouse=warehouse, settings=settings) as lake:
        broker = {"kafka.bootstrap.servers": bootstrap}
        if what == "write":
            source = lake.spark.readStream.format("kafka").options(
                **broker, subscribe=topic, startingOffsets="earliest"
            )
            rows = source.load().select(sf.from_json(sf.col("value").cast("string"), ROW).alias("row")).select("row.*")
            query = lake.write_realtime(rows, "db.t", checkpoint, real_time=_BATCH)
        else:
            changes = lake.read_realtime("db.t", options={"scan.startup.mode": "earliest"})
            values = changes.select(sf.to_json(sf.struct(*changes.columns)).alias("value"))
            sink = values.writeStream.format("kafka").options(**broker, topic=topic, checkpointLocation=checkpoint)
            query = sink.option("kafka.linger.ms", "0").outputMode("update").trigger(realTime=_BATCH).start()
        print("started", flush=True)
        sys.stdin.read()
        query.stop()


if __name__ == "__main__":
    main()
