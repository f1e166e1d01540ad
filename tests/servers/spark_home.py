"""The Spark that pip installed, as the home of servers and of jobs in processes of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
_ROOT = Path(__file__).parents[2]
_OF_A_CLIENT = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "PYSPARK_GATEWAY_PORT")
"""What PySpark sets in the process of a session: a job beside it would take itself for a part of that one."""


def job_environment(with_package: bool = True) -> dict[str, str]:
    """The variables of a job in a process of its own; without the package it has to bring its own lakelog."""
    given = {key: value for key, value in os.environ.items() if key not in _OF_A_CLIENT}
    given |= {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    given["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT / "tests")]) if with_package else ""
    return given


def server_environment(memory: str) -> Mapping[str, str]:
    """The variables of a server; its Python workers find lakelog and the modules that the tests share."""
    return {**job_environment(), "SPARK_DAEMON_MEMORY": memory}


def conf_arguments(settings: Mapping[str, str]) -> list[str]:
    """Settings as arguments of ``spark-submit``."""
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
