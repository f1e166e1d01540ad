"""Starts the JVM of a local session: checks for Java first, and drops start-up messages that users do not need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from lakelog.errors import NotInstalled
from lakelog.io.machine import install_java, java_found

_NOISE: Final = re.compile(
    r"WARNING: (?:Using incubator modules: jdk\.incubator\.vector|A .* has been called by|.*sun\.misc\.Unsafe|Please)"
    r"|Using Spark's default log4j profile|Setting (?:default|Spark) log level to|To adjust logging level use"
    r"|.* WARN Utils: (?:Your hostname,|Set SPARK_LOCAL_IP)|.* WARN NativeCodeLoader: "
    r"|NOTE: Picked up JDK_JAVA_OPTIONS|Picked up JAVA_TOOL_OPTIONS"
)
"""Lines that every start of Spark writes to stderr."""
_DAEMON: Final = re.compile(r'File ".*pyspark[/\\].*(?:daemon|worker)\.py"')
_TRACEBACK: Final = "Traceback (most recent call last):"
_HELD: Final = 200
"""Lines of a traceback that are held back until its error is known."""


def check_java() -> None:
    """Raises NotInstalled with the install command if there is no Java for Spark to run on."""
    if java_found() is None:
        home = os.environ.get("JAVA_HOME")
        where = f"in JAVA_HOME={home}" if home else "in the path, and JAVA_HOME is not set"
        raise NotInstalled(
            f"this needs Spark, and Spark needs Java 17 or newer: none was found {where}. Run: {install_java()}"
        )


def start_jvm(settings: Mapping[str, str]) -> None:
    """Starts PySpark's JVM for these settings, unless this process has one or is to use another one.

    Raises NotInstalled without Java.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    check_java()
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    gateway: Any = launch_gateway(conf, {"stderr": subprocess.PIPE})  # type: ignore[no-untyped-call]
    # a daemon, because the JVM ends after the last statement of this process
    threading.Thread(target=_forward, args=(gateway.proc.stderr,), name="spark-stderr", daemon=True).start()
    SparkContext._ensure_initialized(gateway=gateway)


def _forward(lines: IO[bytes]) -> None:
    with lines:
        for line in relevant_lines(line.decode("utf-8", "replace") for line in lines):
            sys.stderr.write(line)
            sys.stderr.flush()


def relevant_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines of Spark's stderr that a user needs, as they arrive.

    Without start-up messages, and without the traceback of a Python worker whose JVM has ended (BrokenPipeError). The
    lines of several workers may be mixed.
    """
    held: list[str] = []
    tracebacks, ends = 0, list[str]()
    for line in lines:
        starts = line.startswith(_TRACEBACK)
        if not held and not starts:
            if not _NOISE.match(line):
                yield line
            continue
        held.append(line)
        tracebacks += starts
        if not starts and not line[:1].isspace():
            ends.append(line)
        if len(ends) < tracebacks and len(held) < _HELD:
            continue
        is_end = all(end.startswith("BrokenPipeError") for end in ends) and any(map(_DAEMON.search, held))
        if not (ends and is_end):
            yield from held
        held, tracebacks, ends = [], 0, []
    yield from held
