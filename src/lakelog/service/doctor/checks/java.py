"""Check of Java: an installation on which Spark can run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

from lakelog.io.machine import install_java, java_program
from lakelog.service.doctor.check import Check, CheckContext, Finding

_OLDEST: Final = 17
_TIMEOUT_S: Final = 30.0


class JavaCheck(Check):
    """Checks for Java 17 or newer where Spark finds it: in JAVA_HOME, otherwise in the path."""

    NAME = "java"
    TITLE = "Java"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        program, home = java_program(), os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home}" if home else "the path"
        found = shutil.which(program)
        if found is None:
            yield self.failed(f"no Java in {where}: reads and writes with Spark cannot work", install_java())
            return
        try:
            done = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            yield self.failed(f"{found} (from {where}) cannot be run: {why}", install_java())
            return
        output = done.stdout + done.stderr
        version = re.search(r'version "((\d+)[^"]*)"', output)
        if done.returncode or version is None:
            last = (output.strip().splitlines() or ["no output"])[-1]
            yield self.failed(f"{found} (from {where}) is broken: {last}", install_java())
        elif int(version[2]) < _OLDEST:
            yield self.failed(
                f"Java {version[1]} at {found} (from {where}): Spark needs {_OLDEST} or newer", install_java()
            )
        else:
            yield self.passed(f"Java {version[1]} at {found} (from {where})")
