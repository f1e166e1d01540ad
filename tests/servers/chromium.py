"""The Chromium of this machine, for walks, pictures and benchmarks; playwright's own would be a download."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

MISSING = "no Chromium here; on Debian and Ubuntu: apt-get install chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_path() -> str | None:
    """Its program; None without one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium without a window until the block ends.

    Raises:
        FileNotFoundError: None is here.
    """
    program = chromium_path()
    if program is None:
        raise FileNotFoundError(MISSING)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield running
        running.close()
