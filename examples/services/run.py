"""Starts the services of services.toml, shows their output, and stops all of them at Ctrl-C, or when one ends.

python run.py [WAREHOUSE]      # by default a new directory, which is deleted at the end
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path
from queue import Queue

HERE = Path(__file__).parent
STOP_S = 30
"""Seconds in which a service may end by itself."""


class Service:
    """A process in a group of its own, so that Ctrl-C reaches it through this program only."""

    def __init__(self, name: str, command: str, ready: str, ended: Queue[str]) -> None:
        self.name, self._ready, self._ended = name, ready, ended
        self.has_started = threading.Event()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._process = subprocess.Popen(
            shlex.split(command), cwd=HERE, env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._show, daemon=True)
        self._reader.start()

    def _show(self) -> None:
        for line in self._process.stdout:
            print(f"{self.name:<9} | {line}", end="", flush=True)
            if self._ready in line:
                self.has_started.set()
        self._ended.put(self.name)
        self.has_started.set()

    def stop(self) -> None:
        """Asks the service to end, and kills its whole group if it does not."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def free_address() -> str:
    """An address of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def run(warehouse: str) -> int:
    """Runs the services until Ctrl-C (0), or until one ends (1)."""
    ended: Queue[str] = Queue()
    services: list[Service] = []
    places = {"warehouse": shlex.quote(warehouse), "address": free_address()}
    try:
        for name, settings in tomllib.loads((HERE / "services.toml").read_text(encoding="utf-8")).items():
            services.append(Service(name, settings["command"].format(**places), settings.get("ready", ""), ended))
            if "ready" in settings:
                services[-1].has_started.wait()
            if not ended.empty():
                break
        print(f"run.py    | {ended.get()} has ended", flush=True)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one Ctrl-C is enough
        for service in reversed(services):
            service.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if len(sys.argv) > 1:
        sys.exit(run(str(Path(sys.argv[1]).absolute())))
    with tempfile.TemporaryDirectory(prefix="lakelog-services-") as directory:
        sys.exit(run(directory))
