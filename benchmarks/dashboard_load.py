"""The dashboard under attack: how long a page takes, and how much memory the server, while all of this goes on at once.

1,000 parallel requests, 60 live tails, a flood of logins, previews of a Parquet bomb, a hostile statement of 200 kB.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog import connect
from lakelog.service.dashboard.security.users import Users
from lakelog.sql.right import Right

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
)
REQUESTS, TAILS, SESSIONS = 1_000, 60, 6
MOST_S, MOST_MB = 1.0, 600
_MB = 1_000_000


def main() -> None:
    """Makes a warehouse, starts a dashboard on it and measures."""
    with tempfile.TemporaryDirectory(prefix="lakelog-load-") as place, ExitStack() as cleanup:
        warehouse = Path(place)
        _make(warehouse)
        users = Users(warehouse / "users")
        users.put("ada", Right.ADMIN, PASSWORD)
        users.put("rita", Right.READ, PASSWORD)
        server, address = _start(warehouse, users.path)
        cleanup.callback(server.kill)
        found = _Load(address, server.pid).run(cleanup)
        print(json.dumps(found, indent=2))
        if found["slowest_page_s"] > MOST_S or found["server_mb"] > MOST_MB:
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
        self._statuses: dict[str, dict[str, int]] = {}
        self._peaks = {"server": 0, "with_previews": 0}
        self._over = threading.Event()

    def run(self, cleanup: ExitStack) -> dict[str, Any]:
        """All at once; the pages are asked for one after the other, as a user does."""
        user = self._log_in(cleanup, "ada")
        user.get("/tables/d.log/rows")  # the process of previews is warm
        sessions = [self._log_in(cleanup, "rita") for _ in range(SESSIONS)]
        tails = [
            cleanup.enter_context(sessions[number % SESSIONS].stream("GET", "/api/v1/tables/d.log/tail"))
            for number in range(TAILS)
        ]
        assert {tail.status_code for tail in tails} == {200}
        cleanup.callback(self._over.set)
        with ThreadPoolExecutor(150) as pool:
            work: list[Callable[[], None]] = [self._watch_memory]
            work += [lambda: self._login_flood() for _ in range(8)]
            work += [lambda: self._bomb(sessions[0]) for _ in range(2)]
            work += [lambda: self._hostile(user)]
            for one in work:
                pool.submit(one)
            requests = [pool.submit(self._request, sessions[n % SESSIONS]) for n in range(REQUESTS)]
            pages: dict[str, float] = {}
            while not all(request.done() for request in requests):
                for path in PAGES:
                    began = time.monotonic()
                    answer = user.get(path, headers={"accept": "text/html"})
                    assert answer.status_code == 200, (path, answer.text)
                    pages[path] = max(pages.get(path, 0.0), time.monotonic() - began)
            self._over.set()
        return {
            "slowest_page_s": round(max(pages.values()), 3),
            "pages_s": {path: round(taken, 3) for path, taken in pages.items()},
            "server_mb": round(self._peaks["server"] / _MB),
            "with_previews_mb": round(self._peaks["with_previews"] / _MB),
            "tails": len(tails),
            "answers": self._statuses,
        }

    def _log_in(self, cleanup: ExitStack, name: str) -> httpx.Client:
        limits = httpx.Limits(max_connections=None)
        client = cleanup.enter_context(httpx.Client(base_url=self._address, timeout=60, limits=limits))
        answer = client.post("/login", data={"user": name, "password": PASSWORD}, headers={"origin": self._address})
        assert answer.status_code == 303, answer.text
        return client

    def _request(self, session: httpx.Client) -> None:
        self._count("requests", lambda: session.get("/api/v1/tables"))

    def _login_flood(self) -> None:
        while not self._over.is_set():
            form = {"user": f"user{time.monotonic_ns() % 1_000}", "password": "a guess"}
            self._count("logins", lambda: httpx.post(f"{self._address}/login", data=form, timeout=60))  # noqa: B023

    def _bomb(self, session: httpx.Client) -> None:
        while not self._over.is_set():
            self._count("bombs", lambda: session.get("/api/v1/tables/d.bomb/rows"))

    def _hostile(self, user: httpx.Client) -> None:
        csrf = user.get("/", headers={"accept": "text/html"}).text.split('data-csrf="')[1].split('"')[0]
        text = "show tables /* k" + " " * 199_900 + "x */ in d"
        headers = {"x-csrf-token": csrf, "origin": self._address}
        send = {"text": text, "catalog": None, "database": None}
        self._count("statements", lambda: user.post("/api/v1/terminal/texts", json=send, headers=headers))

    def _count(self, what: str, ask: Callable[[], httpx.Response]) -> None:
        try:
            status = str(ask().status_code)
        except httpx.TransportError as failure:
            status = type(failure).__name__
        seen = self._statuses.setdefault(what, {})
        seen[status] = seen.get(status, 0) + 1

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


if __name__ == "__main__":
    main()
