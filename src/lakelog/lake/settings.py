"""Settings of Spark for sessions with one purpose, for ``connect(settings=…)``."""

from __future__ import annotations

from collections.abc import Mapping

LOW_LATENCY: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""Settings for a local session that runs streams only.

The JVM's optimising compiler does not compete with micro-batches for the cores. Latency in the first minutes drops by a
quarter, but long batch queries are slower. Checkpoint files on a local disk get no checksum files. Spark starts no
process to set the permissions of each file (four per micro-batch). Spark's own connectors to S3 and Azure buffer
uploads on the local disk and cannot write with these settings (RFC 4).
"""

HIGH_THROUGHPUT: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
}
"""Settings for a local session that writes many narrow rows, up to some kilobytes each.

Spark adds up the bytes of a batch after each row and column before it sends the batch to Python, unless batches may
have any size. Without that, a batch ends after 16,384 rows. Do not use it for wide rows: a batch of each task must fit
into the memory of the JVM and of its Python worker (RFC 4).
"""
