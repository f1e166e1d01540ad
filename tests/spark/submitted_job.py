"""A job for ``spark-submit --py-files``: reads before anything has imported lakelog, then does ``cluster_job``.

usage: submitted_job.py DIRECTORY; prints JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
root = Path(sys.argv[1])
rows = spark.read.format("lakelog").option("warehouse", str(root / "warehouse")).load("db.t").collect()
first = {"rows": [tuple(row) for row in rows], "imported": "lakelog" in sys.modules}

from cluster_job import found_on  # noqa: E402 - what is read above needs no import

sys.stdout.write(json.dumps({"first": first, **found_on(spark, root)}) + "\n")
spark.stop()
