"""The dashboard under attack: how long a page takes, and how much memory the server, while all of this goes on at once.

1,000 connections that ask again as soon as they are answered, 60 live tails, a flood of logins, previews of a Parquet
bomb, a hostile statement of 200 kB (``dashboard_flood``, a process of its own). Pages are asked for one after the
other, as a user does. The report has the CPU seconds of each process, because all share the cores.
Run: ``python -m benchmarks.dashboard_load``; prints one JSON object, and fails beyond 1 s or 600 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog import connect
from lakelog.service.access.users import Users
from lakelog.sql.runtime.statement import Privilege

PASSWORD = "correct horse battery"
PAGES = (
    "/",
    "/log",
    "/optimizing",
    "/settings",
    "/catalogs",
    "/tables/d.log",
    "/tables/d.log/log",
    "/tables/d.log/rows",
    "/static/app.js",
)
REQUESTS, TAILS, SESSIONS = 1_000, 60, 6
SECONDS = int(os.environ.get("LAKELOG_LOAD_SECONDS", "30"))
MOST_S, MOST_MB = 1.0, 600
_MB = 1_000_000


def main() -> None:
    """Makes a warehouse, starts a dashboard on it and measures."""
    with tempfile.TemporaryDirectory(prefix="lakelog-load-") as place, ExitStack() as cleanup:
        warehouse = Path(place)
        _make(warehouse)
        users = Users(warehouse / "users")
        users.put("ada", Privilege.ADMIN, PASSWORD)
        users.put("rita", Privilege.READ, PASSWORD)
        server, address = _start(warehouse, users.path)
        cleanup.callback(server.wait)
        cleanup.callback(server.terminate)
        found = _Load(address, server.pid).run(cleanup)
        print(json.dumps(found, indent=2))
        if found["slowest_page_s"] > MOST_S or found["server_mb"] > MOST_MB or found["pages_refused"]:
            sys.exit(1)


def _make(warehouse: Path) -> None:
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql("create database d")
        lake.sql("create table d.bomb (id bigint, text string)")
        with lake.table("d.bomb").writer() as writer:
            writer.write(pa.table({"id": range(40), "text": ["x" * 200] * 40}))
        lake.sql("create table d.log (id bigint, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
        with lake.table("d.log").writer() as writer:
            writer.write(pa.table({"id": range(1_000)}))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), pa.array(["a" * 50 * _MB]))
    file = next((warehouse / "d.db" / "bomb").glob("bucket-0/*.parquet"))
    pq.write_table(pa.table({"id": range(40), "text": texts}), file, compression="zstd", store_schema=False)


def _start(warehouse: Path, users: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "lakelog", "dashboard", "--warehouse", str(warehouse), "--port", "0"]
    command += ["--users-file", str(users), "--state", str(warehouse / "state")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    address = server.stdout.readline().split(" at ")[1].split()[0].rstrip("/")
    return server, address.replace("localhost", "127.0.0.1")


class _Load:
    def __init__(self, address: str, pid: int) -> None:
        self._address, self._server = address, psutil.Process(pid)
        self._peaks = {"server": 0, "with_previews": 0}
        self._over = threading.Event()
        self._refused: list[str] = []

    def run(self, cleanup: ExitStack) -> dict[str, Any]:
        """The pages without load, then with it."""
        user = self._log_in(cleanup, "ada")
        readers = [self._log_in(cleanup, "rita") for _ in range(SESSIONS)]
        self._pages(user)  # the process of previews is warm
        time.sleep(1)  # no answer is kept from that
        quiet = self._pages(user)
        watching = threading.Thread(target=self._watch_memory)
        watching.start()
        cleanup.callback(watching.join)
        cleanup.callback(self._over.set)
        asked = {
            "address": self._address,
            "sessions": [_cookie(reader) for reader in readers],
            "admin": {"cookie": _cookie(user), "csrf": user.get("/").text.split('data-csrf="')[1].split('"')[0]},
            "seconds": SECONDS,
            "requests": REQUESTS,
            "tails": TAILS,
        }
        flood = cleanup.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.dashboard_flood"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert flood.stdin is not None and flood.stdout is not None
        print(json.dumps(asked), file=flood.stdin, flush=True)
        assert flood.stdout.readline() == "ready\n", "the tails did not open"
        usage, began = _Usage(self._server, psutil.Process(flood.pid)), time.monotonic()
        pages: dict[str, list[float]] = {}
        while time.monotonic() - began < SECONDS:
            for path, seconds in self._pages(user).items():
                pages.setdefault(path, []).append(seconds)
        cpu = usage.cores(time.monotonic() - began)
        self._over.set()
        return {
            "slowest_page_s": round(max(map(max, pages.values())), 3),
            "pages_s": {path: _spread(seconds) | {"quiet": round(quiet[path], 3)} for path, seconds in pages.items()},
            "pages_refused": len(self._refused),
            "server_mb": round(self._peaks["server"] / _MB),
            "with_previews_mb": round(self._peaks["with_previews"] / _MB),
            "cores": cpu,
            **json.loads(flood.stdout.read()),
        }

    def _log_in(self, cleanup: ExitStack, name: str) -> httpx.Client:
        client = cleanup.enter_context(httpx.Client(base_url=self._address, timeout=60))
        answer = client.post("/login", data={"user": name, "password": PASSWORD}, headers={"origin": self._address})
        assert answer.status_code == 303, answer.text
        return client

    def _pages(self, user: httpx.Client) -> dict[str, float]:
        seconds = {}
        for path in PAGES:
            began = time.monotonic()
            answer = user.get(path, headers={"accept": "text/html"})
            seconds[path] = time.monotonic() - began
            if answer.status_code != 200:
                self._refused.append(f"{path}: {answer.status_code}")
        return seconds

    def _watch_memory(self) -> None:
        while not self._over.wait(0.05):
            own = self._server.memory_info().rss
            previews = 0
            for child in self._server.children(recursive=True):
                try:
                    is_preview = any("previews.process" in word for word in child.cmdline())
                    previews += child.memory_full_info().uss if is_preview else 0
                except psutil.Error:
                    continue
            self._peaks["server"] = max(self._peaks["server"], own)
            self._peaks["with_previews"] = max(self._peaks["with_previews"], own + previews)


class _Usage:
    """CPU of the processes since it was made; what is not theirs is that of other work on the machine."""

    def __init__(self, server: psutil.Process, flood: psutil.Process) -> None:
        self._of = {"server": server, "flood": flood, "measuring": psutil.Process()}
        self._before = self._seconds()

    def cores(self, seconds: float) -> dict[str, float]:
        """How many cores each has used on average, and for how long of each second the server had to wait for one."""
        return {name: round((now - self._before[name]) / seconds, 2) for name, now in self._seconds().items()}

    def _seconds(self) -> dict[str, float]:
        own = {name: sum(process.cpu_times()[:2]) for name, process in self._of.items()}
        children = sum(sum(child.cpu_times()) for child in self._of["server"].children(recursive=True))
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
        return own | {"children_of_server": children, "machine": busy, "server_waits": _wait_s(self._of["server"].pid)}


def _wait_s(pid: int) -> float:
    """How long the first thread of a process, which has its event loop, was ready and had no core (Linux)."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    parts = {"p50": 0.5, "p99": 0.99}
    return {name: round(ordered[int(len(ordered) * part)], 3) for name, part in parts.items()} | {
        "max": round(ordered[-1], 3),
        "times": len(ordered),
    }


def _cookie(client: httpx.Client) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


if __name__ == "__main__":
    main()
