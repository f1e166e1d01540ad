"""Checks of what is installed: Java, PySpark, the extras; and of a running Spark session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from lakelog.catalog import CATALOGS
from lakelog.errors import LakelogError, NotInstalled
from lakelog.io import STORAGES, scheme_of
from lakelog.io.machine import install_java, java_program
from lakelog.options.catalog import CATALOG_OPTIONS, CATALOG_TYPE
from lakelog.options.environment import PYSPARK_BELOW, PYSPARK_OLDEST
from lakelog.options.option import Options
from lakelog.options.registry import Registry
from lakelog.service.doctor.check import Check, CheckContext, Finding

_OLDEST: Final = 17
_JAVA_S: Final = 30.0


class JavaCheck(Check):
    """Checks for Java 17 or newer where Spark finds it: in JAVA_HOME, otherwise in the path."""

    NAME = "java"
    TITLE = "Java"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        program, home = java_program(), os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home}" if home else "the path"
        java = shutil.which(program)
        if java is None:
            yield self.failed(f"no Java in {where}: reads and writes with Spark cannot work", install_java())
            return
        try:
            done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            yield self.failed(f"{java} (from {where}) cannot be run: {why}", install_java())
            return
        output = done.stdout + done.stderr
        version = re.search(r'version "((\d+)[^"]*)"', output)
        if done.returncode or version is None:
            last = (output.strip().splitlines() or ["no output"])[-1]
            yield self.failed(f"{java} (from {where}) is broken: {last}", install_java())
        elif int(version[2]) < _OLDEST:
            yield self.failed(
                f"Java {version[1]} at {java} (from {where}): Spark needs {_OLDEST} or newer", install_java()
            )
        else:
            yield self.passed(f"Java {version[1]} at {java} (from {where})")


_PYTHON_S: Final = 60.0
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
        supported = f">={_text(PYSPARK_OLDEST)},<{_text(PYSPARK_BELOW)}"
        if PYSPARK_OLDEST <= _numbers(version) < PYSPARK_BELOW:
            yield self.passed(f"PySpark {version}, Python {sys.version_info[0]}.{sys.version_info[1]}")
        else:
            yield self.failed(f"PySpark {version} is not one of {supported}", f"pip install 'pyspark{supported}'")
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
        match = re.search(r"Spark (\d+\.\d+\S*)", release)
        if match is not None and _numbers(match[1]) != _numbers(version):
            yield self.failed(
                f"SPARK_HOME={home} is Spark {match[1]}, PySpark is {version}: the session would use the former",
                "unset SPARK_HOME, or install the PySpark of that version",
            )

    def _workers(self) -> Iterator[Finding]:
        program = os.environ.get("PYSPARK_PYTHON")
        if not program:
            return
        python = shutil.which(program)
        if python is None:
            yield self.failed(f"PYSPARK_PYTHON={program} is not a program", "unset PYSPARK_PYTHON, or name a Python")
            return
        try:
            done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_PYTHON_S, check=False)
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
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


_SPARK: Final[Registry[Any]] = Registry(
    "session",
    {"at": "lakelog.spark.session.session:session_at", "gaps": "lakelog.spark.session.session:session_gaps"},
)
"""Loaded for a session only, so that the doctor runs without PySpark."""
_START: Final = "check the address, and that the server runs: $SPARK_HOME/sbin/start-connect-server.sh"


class SessionCheck(Check):
    """Checks a given session for the settings of lakelog's own sessions."""

    NAME = "session"
    TITLE = "the Spark session"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        session = around.session
        if around.remote is not None:
            try:
                session = _SPARK.create("at", remote=around.remote)
                _ = session.version
            except LakelogError:
                raise
            except Exception as why:  # Spark has many
                lines = str(why).strip().splitlines() or [type(why).__name__]
                yield self.failed(f"Spark Connect at {around.remote} does not answer: {lines[0]}", _START)
                return
        if session is None:
            return
        gaps = _SPARK.create("gaps", session)
        for gap in gaps:
            state = "is not set" if gap.found is None else f"is {gap.found}"
            yield self.warned(
                f"Spark {session.version}: {gap.key} {state}: {gap.why}",
                f"start the session with --conf {gap.key}={gap.wanted}",
            )
        if not gaps:
            yield self.passed(f"Spark {session.version} with all settings of a session made for streams")


_PACKAGE: Final = "lakelog"
_OF_EXTRA: Final = re.compile(r"""([\w.-]+)(?:\[(.+?)\])?[^;]*; *extra *== *["']([\w.-]+)["']""")
"""A requirement of an extra in the metadata of a package: name, its extras, extra; others depend on the machine."""
_NOT_OF_USERS: Final = ("all", "bench", "dev", "docs")


class ExtrasCheck(Check):
    """The extras of lakelog, as its metadata declare them."""

    NAME = "extras"
    TITLE = "optional parts"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        for load in _needed(around):
            try:
                load()
            except NotInstalled as missing:
                about, _, command = str(missing).partition(" needs: ")
                yield self.failed(f"{about} needs an extra that is missing", command)
        if not extras():
            yield self.warned("lakelog is not installed as a package, so its extras are unknown", "install it with pip")
            return
        packages = {extra: tuple(required(_PACKAGE, extra)) for extra in extras() if extra not in _NOT_OF_USERS}
        have = {extra: names[0] for extra, names in packages.items() if all(map(_version, names))}
        others = [extra for extra in packages if extra not in have]
        shown = [f"{extra} ({first} {_version(first)})" for extra, first in have.items()]
        text = f"installed: {', '.join(shown) or 'none'}"
        yield self.passed(f"{text}; not installed: {', '.join(others)}" if others else text)


def _needed(around: CheckContext) -> Iterator[Callable[[], Any]]:
    """What this warehouse, catalog and log need; each call raises NotInstalled if its extra is missing."""
    scheme = scheme_of(around.warehouse)
    if scheme in STORAGES:  # the check of the storage reports an unknown one
        yield lambda: STORAGES.load(scheme)
    kind = Options(CATALOG_OPTIONS.canonical(around.catalog_options)).need(CATALOG_TYPE)
    yield lambda: CATALOGS.load(kind)
    yield around.log_factory


def extras() -> list[str]:
    """The extras of lakelog."""
    return list(dict.fromkeys(extra for _, _, extra in _requirements(_PACKAGE)))


def required(package: str, extra: str) -> Iterator[str]:
    """The packages of an extra, with those of the extras that these have."""
    for name, inner, of in _requirements(package):
        if of == extra:
            yield from [] if name == package else [name]
            for one in filter(None, inner.split(",")):
                yield from required(name, one.strip())


def _requirements(package: str) -> Iterator[tuple[str, str, str]]:
    """(package, its extras, extra) of all extras of a package; none if it is not installed."""
    try:
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return
    for line in requirements:
        if match := _OF_EXTRA.fullmatch(line):
            yield match[1], match[2] or "", match[3]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
