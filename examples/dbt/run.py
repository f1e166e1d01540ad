"""Runs dbt in a Spark session that knows the tables of a lakelog warehouse: ``python run.py build``.

dbt's method ``session`` takes the Spark session of its process and talks to it by ``spark.sql``. ``attach`` makes that
method know lakelog's tables. The warehouse is ``./warehouse``, or the one that LAKELOG_WAREHOUSE names.
"""

import os
import sys

from dbt.cli.main import dbtRunner

import lakelog

lake = lakelog.connect(os.environ.get("LAKELOG_WAREHOUSE", "./warehouse"))
lake.attach()
result = dbtRunner().invoke(sys.argv[1:])
lake.close()
if result.exception is not None:
    sys.exit(str(result.exception))
sys.exit(0 if result.success else 1)
