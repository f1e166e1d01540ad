"""A real dashboard on a free port, in a thread of the test, and clients: a program, a browser."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from lakelog.service.dashboard.server import DashboardServer
from lakelog.service.dashboard.settings import DashboardSettings

TOKEN = "a-token-for-tests-of-the-dashboard"
PASSWORD = "correct horse battery"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Of clients that speak plain HTTP: a context of httpx's own costs each of them 30 ms."""
BROWSER = {"accept": "text/html", "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}


@dataclass
class RunningDashboard:
    """``address`` ends without a slash."""

    server: DashboardServer
    address: str

    def client(self, **headers: str) -> httpx.Client:
        """A program of this machine's user."""
        return httpx.Client(base_url=self.address, headers=headers, timeout=120, verify=NO_TLS, trust_env=False)

    def program(self) -> httpx.Client:
        """A program with the token."""
        return self.client(authorization=f"Bearer {TOKEN}")

    def browser(self) -> httpx.Client:
        """A browser that nobody has logged in with."""
        return httpx.Client(
            base_url=self.address, headers=BROWSER, timeout=120, verify=NO_TLS, trust_env=False, follow_redirects=False
        )

    @contextmanager
    def log_in(self, user: str, password: str) -> Iterator[httpx.Client]:
        """A browser after the login form."""
        with self.browser() as browser:
            form = {"user": user, "password": password}
            answer = browser.post("/login", data=form, headers={"origin": self.address})
            assert answer.status_code == 303, answer.text
            yield browser


def csrf_of(page: httpx.Response) -> str:
    """The token that a page sends along with changes."""
    found = re.search(r'data-csrf="([^"]+)"', page.text)
    assert found, "the page has no CSRF token"
    return found[1]


@contextmanager
def running_dashboard(warehouse: Path, **more: Any) -> Iterator[RunningDashboard]:
    """Serves a warehouse until the block ends."""
    settings = DashboardSettings(str(warehouse), port=0, state=warehouse / "_state", **more)
    server, up = DashboardServer(settings), threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda _: up.set(),), daemon=True)
    thread.start()
    try:
        assert up.wait(120), "the dashboard does not come up"
        yield RunningDashboard(server, server.address.rstrip("/").replace("localhost", "127.0.0.1"))
    finally:
        server.stop()
        thread.join(120)
        assert not thread.is_alive()
