"""The demo in a process of its own, for somebody who wants to look at its table meanwhile."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakelog.service.own_spark import environment_of_own_spark

_SECONDS: Final = 1_200
_RATE: Final = 500
_STOP_S: Final = 20


@contextmanager
def demo_warehouse() -> Iterator[str]:
    """A new warehouse that ``lakelog demo`` fills while the block runs; it is deleted behind it.

    The demo's own output goes nowhere; it runs for twenty minutes at 500 rows a second, then its table stays as it is.
    """
    warehouse = tempfile.mkdtemp(prefix="lakelog-demo-")
    command = [sys.executable, "-m", "lakelog", "demo", "--warehouse", warehouse]
    command += ["--seconds", str(_SECONDS), "--rate", str(_RATE)]
    running = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment_of_own_spark(),
    )
    try:
        yield warehouse
    finally:
        running.terminate()
        try:
            running.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        shutil.rmtree(warehouse, ignore_errors=True)
