"""Is there a Java that Spark can run on?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

from lakelog.service.doctor.check import Check, CheckContext, Finding
from lakelog.service.servers.server_process import java_program

_OLDEST: Final = 17
_PATIENCE_S: Final = 30.0
_INSTALL: Final = (
    ("brew", "brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)"),
    ("apt-get", "sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless"),
    ("dnf", "sudo dnf install -y java-17-openjdk-headless"),
)


class JavaCheck(Check):
    """Checks for Java 17 or newer where Spark finds it: in JAVA_HOME, otherwise in the path."""

    NAME = "java"
    TITLE = "Java"

    def look(self, around: CheckContext) -> Iterator[Finding]:
        program, home = java_program(), os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home}" if home else "the path"
        found = shutil.which(program)
        if found is None:
            yield self.failed(f"no Java in {where}: reads and writes with Spark cannot work", _install())
            return
        try:
            done = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            yield self.failed(f"{found} (from {where}) cannot be run: {why}", _install())
            return
        told = done.stdout + done.stderr
        version = re.search(r'version "((\d+)[^"]*)"', told)
        if done.returncode or version is None:
            last = (told.strip().splitlines() or ["no output"])[-1]
            yield self.failed(f"{found} (from {where}) is broken: {last}", _install())
        elif int(version[2]) < _OLDEST:
            yield self.failed(
                f"Java {version[1]} at {found} (from {where}): Spark needs {_OLDEST} or newer", _install()
            )
        else:
            yield self.passed(f"Java {version[1]} at {found} (from {where})")


def _install() -> str:
    for program, command in _INSTALL:
        if shutil.which(program):
            return command
    return "install a JDK or JRE 17 or newer, or set JAVA_HOME to one"
