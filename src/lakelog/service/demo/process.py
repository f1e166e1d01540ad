"""The demo in its own process, so that its table can be watched in the meantime."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.quantities import format_duration
from lakelog.service import child_process

_SECONDS: Final = 1_200
_RATE: Final = 500
_STOP_S: Final = 20
_OUTPUT_CHARS: Final = 500
_SLOW_S: Final = 45.0
_PROGRESS: Final = re.compile(r"^ *(\d+) s  (.+?): sent ", re.MULTILINE)
"""A line of the demo: seconds since the queries began, and the stage."""


class DemoProcess:
    """A running or ended demo; ``warehouse`` is the one that it fills."""

    def __init__(self, warehouse: str, command: Sequence[str], output: Path, slow_s: float = _SLOW_S) -> None:
        self.warehouse, self._slow_s = warehouse, slow_s
        self._output, self._began = output, monotonic_s()
        self._ended: float | None = None
        self._stage, self._stage_ms = "", 0.0
        with output.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=child_process.environment_of_own_spark()
            )

    def failure(self) -> str:
        """The reason why nothing is written, with the end of its output; empty while it writes and after success.

        A slow start is reported too: on a busy machine, Spark takes a minute or more to start.
        """
        code = self._process.poll()
        if code is None and monotonic_s() - self._began > self._slow_s and not self._has_written():
            waited = monotonic_s() - self._began
            return (
                f"the demo has written nothing for {waited:.0f} s: Spark starts slowly on a busy machine; still waiting"
            )
        if not code:
            return ""
        self._ended = self._ended or monotonic_s()
        words = self._output.read_text(encoding="utf-8", errors="replace").strip()[-_OUTPUT_CHARS:]
        seconds = self._ended - self._began
        why = f"the demo ended with code {code} after {seconds:.0f} s, its table is no longer written"
        return f"{why}: {words}; to see what Java and Spark need here, run: lakelog doctor"

    def stage(self) -> str:
        """The demo's current stage and its age; empty after a failure, which ``trouble`` reports."""
        code = self._process.poll()
        if code is not None:
            return "" if code else "finished; its table remains"
        lines = _PROGRESS.findall(self._output.read_text(encoding="utf-8", errors="replace")) or [("0", "starting")]
        stage = lines[-1][1]
        if stage != self._stage:
            seconds = int(lines[-1][0]) - next(int(at) for at, name in lines if name == stage)
            self._stage, self._stage_ms = stage, self._output.stat().st_mtime * 1000 - seconds * 1000
        return f"{stage}, for {format_duration(now_ms() - self._stage_ms)}"

    def _has_written(self) -> bool:
        return any(Path(self.warehouse).glob("*.db/*/snapshot/snapshot-*"))

    def stop(self) -> None:
        """Ends the demo, cleanly if that is fast."""
        child_process.stop(self._process, _STOP_S)


@contextmanager
def demo_warehouse() -> Iterator[DemoProcess]:
    """Context with a new warehouse that ``lakelog demo`` fills; it is deleted afterwards.

    The demo runs for twenty minutes at 500 rows/s. Then its table stays as it is.
    """
    directory = Path(tempfile.mkdtemp(prefix="lakelog-demo-"))
    warehouse = str(directory / "warehouse")
    command = [sys.executable, "-m", "lakelog", "demo", "--warehouse", warehouse]
    command += ["--seconds", str(_SECONDS), "--rate", str(_RATE)]
    demo = DemoProcess(warehouse, command, directory / "output.txt")
    try:
        yield demo
    finally:
        demo.stop()
        shutil.rmtree(directory, ignore_errors=True)
