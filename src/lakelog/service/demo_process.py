"""The demo in a process of its own, for somebody who wants to look at its table meanwhile."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lakelog.io.clock import monotonic_s
from lakelog.service.own_spark import environment_of_own_spark

_SECONDS: Final = 1_200
_RATE: Final = 500
_STOP_S: Final = 20
_LAST_WORDS: Final = 500


class DemoProcess:
    """A demo that runs, or has run; ``warehouse`` is what it fills."""

    def __init__(self, warehouse: str, command: Sequence[str], output: Path) -> None:
        self.warehouse = warehouse
        self._output, self._began = output, monotonic_s()
        self._ended: float | None = None
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment_of_own_spark()
            )

    def trouble(self) -> str:
        """Why it has failed, with the last lines of its output; empty while it runs and when it has ended well."""
        code = self._process.poll()
        if not code:
            return ""
        self._ended = self._ended or monotonic_s()
        words = self._output.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_WORDS:]
        seconds = self._ended - self._began
        return f"the demo ended with code {code} after {seconds:.0f} s, its table is no longer written: {words}"

    def stop(self) -> None:
        """Ends it, in order if that is quick."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def demo_warehouse() -> Iterator[DemoProcess]:
    """A new warehouse that ``lakelog demo`` fills while the block runs; it is deleted behind it.

    It runs for twenty minutes at 500 rows a second, then its table stays as it is.
    """
    place = Path(tempfile.mkdtemp(prefix="lakelog-demo-"))
    warehouse = str(place / "warehouse")
    command = [sys.executable, "-m", "lakelog", "demo", "--warehouse", warehouse]
    command += ["--seconds", str(_SECONDS), "--rate", str(_RATE)]
    demo = DemoProcess(warehouse, command, place / "output.txt")
    try:
        yield demo
    finally:
        demo.stop()
        shutil.rmtree(place, ignore_errors=True)
