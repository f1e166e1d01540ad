"""Virtual environments and jars of the peers, kept in the cache; each is made by the first run that needs it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from lakelog.errors import Unavailable
from lakelog.service.servers.jars import jar_cache, resolve_jars
from lakelog.spark.compat.natives import COORDINATES
from lakelog.spark.realtime.kafka_connector import JARS_VARIABLE


@dataclass(frozen=True)
class Environment:
    """Where a system runs: packages of its own Python (none: this one) and Maven coordinates of its jars.

    Of what the coordinates bring, the jars whose names begin with one of ``keep`` are used: Spark has the others.
    ``interpreter`` is a Python that is there.
    """

    packages: tuple[str, ...] = ()
    coordinates: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    interpreter: str = sys.executable

    @property
    def spark(self) -> str | None:
        """The PySpark of its own, None for the one of this environment."""
        return next((p for p in self.packages if p.startswith("pyspark")), None)

    def python(self) -> str:
        """The interpreter; makes the environment when it is not there. Raises Unavailable with pip's words."""
        if not self.packages:
            return self.interpreter
        place = jar_cache().parent / "environments" / "+".join(p.replace("==", "-") for p in self.packages)
        python, made = place / "bin" / "python", place / ".made"
        if not made.exists():
            venv.create(place, with_pip=True, clear=True)
            command = [str(python), "-m", "pip", "install", "-q", *self.packages, "setuptools"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Unavailable(f"pip could not install {', '.join(self.packages)}: {done.stderr.strip()[-300:]}")
            made.touch()
        return str(python)

    def jars(self) -> list[Path]:
        """The jars for the session. Raises Unavailable with the resolver's words."""
        if not self.coordinates:
            return []
        return [j for j in resolve_jars(self.coordinates) if j.name.startswith(self.keep)]


_SPARK_40 = "pyspark==4.0.5"
_SPARK_35 = "pyspark==3.5.8"
_PYPAIMON = ("pypaimon==2.1.0", "pypaimon-rust==0.4.0")

ENVIRONMENTS = {
    "parquet": Environment(),
    "lakelog": Environment(),
    "lakelog_dv": Environment(),
    "lakelog_python": Environment(),
    "parquet-4.0": Environment((_SPARK_40,)),
    "delta": Environment((_SPARK_40,), ("io.delta:delta-spark_4.0_2.13:4.4.0",), ("delta-spark", "delta-storage")),
    "iceberg": Environment(
        (_SPARK_40,), ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",), ("iceberg-spark-runtime",)
    ),
    "parquet-3.5": Environment((_SPARK_35,)),
    "hudi": Environment((_SPARK_35,), ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",), ("hudi-spark",)),
    "paimon": Environment((_SPARK_35,), ("org.apache.paimon:paimon-spark-3.5:0.9.0",), ("paimon-spark-3.5",)),
    "deltalake": Environment(("deltalake==1.6.6", "pyarrow==26.0.1")),
    "pypaimon": Environment(_PYPAIMON),
    "pypaimon_rust": Environment(_PYPAIMON),
}
"""Every system that can be asked for; ``parquet-…`` is the floor of the peers on that Spark."""

FLOORS = {None: "parquet", _SPARK_40: "parquet-4.0", _SPARK_35: "parquet-3.5"}


def floor_of(system: str) -> str:
    """The plain Parquet of the same PySpark; systems without Spark are set beside this environment's."""
    return FLOORS[ENVIRONMENTS[system].spark]


_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""A set of jars that works with PySpark 4.2 and later, where a registry does not have those of this PySpark."""


def connector_environment() -> dict[str, str]:
    """Environment variables for a process of this Python whose Spark session has Spark's Kafka connector."""
    try:
        jars = resolve_jars([COORDINATES])
    except Unavailable:
        jars = resolve_jars(_CONNECTOR, alone=True)
    return {**os.environ, JARS_VARIABLE: str(jars[0].parent)}
