"""Does lakelog support the installed PySpark, and do its workers find the same version?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from lakelog.options.environment import PYSPARK_BELOW, PYSPARK_OLDEST
from lakelog.service.doctor.check import Check, CheckContext, Finding

_TIMEOUT_S: Final = 60.0
_ASK: Final = "import sys, lakelog; print('%d.%d' % sys.version_info[:2], lakelog.__version__)"


class SparkCheck(Check):
    """Checks PySpark, SPARK_HOME and the Python of Spark's workers."""

    NAME = "spark"
    TITLE = "PySpark"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        try:
            version = metadata.version("pyspark")
        except metadata.PackageNotFoundError:
            yield self.failed(
                "PySpark is not installed: only the parts without Spark work", "pip install 'lakelog[spark]'"
            )
            return
        wanted = f">={_text(PYSPARK_OLDEST)},<{_text(PYSPARK_BELOW)}"
        if PYSPARK_OLDEST <= _numbers(version) < PYSPARK_BELOW:
            yield self.passed(f"PySpark {version}, Python {sys.version_info[0]}.{sys.version_info[1]}")
        else:
            yield self.failed(f"PySpark {version} is not one of {wanted}", f"pip install 'pyspark{wanted}'")
        yield from self._home(version)
        yield from self._workers()

    def _home(self, version: str) -> Iterator[Finding]:
        home = os.environ.get("SPARK_HOME")
        if not home:
            return
        try:
            release = (Path(home) / "RELEASE").read_text(encoding="utf-8")
        except OSError:
            # PySpark's own directory has no such file
            if not (Path(home) / "jars").is_dir():
                yield self.failed(f"SPARK_HOME={home} is not a Spark installation: it has no jars", "unset SPARK_HOME")
            return
        found = re.search(r"Spark (\d+\.\d+\S*)", release)
        if found is not None and _numbers(found[1]) != _numbers(version):
            yield self.failed(
                f"SPARK_HOME={home} is Spark {found[1]}, PySpark is {version}: the session would use the former",
                "unset SPARK_HOME, or install the PySpark of that version",
            )

    def _workers(self) -> Iterator[Finding]:
        program = os.environ.get("PYSPARK_PYTHON")
        if not program:
            return
        found = shutil.which(program)
        if found is None:
            yield self.failed(f"PYSPARK_PYTHON={program} is not a program", "unset PYSPARK_PYTHON, or name a Python")
            return
        try:
            done = subprocess.run([found, "-c", _ASK], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            yield self.failed(f"PYSPARK_PYTHON={program} cannot be run: {why}", "unset PYSPARK_PYTHON")
            return
        ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            yield self.failed(
                f"Spark's workers run {program} (PYSPARK_PYTHON), which has no lakelog: {last}",
                f"{program} -m pip install lakelog, or unset PYSPARK_PYTHON",
            )
        elif done.stdout.split()[0] != ours:
            yield self.failed(
                f"Spark's workers run Python {done.stdout.split()[0]} ({program}, PYSPARK_PYTHON), this is {ours}",
                f"export PYSPARK_PYTHON={sys.executable}",
            )


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
