"""A clock that is wrong: Debian's libfaketime, which takes the place of the C library's clock in a host's processes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hosts.network import NoHosts
from lakelog.service.servers.jars import jar_cache

_NAME: Final = "faketime/libfaketimeMT.so.1"
_SYSTEM: Final = Path("/usr/lib/x86_64-linux-gnu")


def find_faketime() -> Path:
    """The library: the system's, or one that is fetched from Debian once, without installing it. Raises NoHosts."""
    kept = jar_cache().parent / "faketime"
    for place in (_SYSTEM / _NAME, kept / Path(_NAME).name):
        if place.exists():
            return place
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        fetched = "apt-get download libfaketime && dpkg-deb --extract libfaketime_*.deb ."
        done = subprocess.run(["bash", "-c", fetched], cwd=scratch, capture_output=True, text=True, check=False)
        found = [*Path(scratch).rglob(Path(_NAME).name)]
        if done.returncode or not found:
            raise NoHosts(f"a clock that is wrong needs libfaketime: apt-get install faketime ({done.stderr[-500:]})")
        found[0].replace(kept / found[0].name)
    return kept / Path(_NAME).name


def wrong_clock(library: Path, ahead_s: int) -> dict[str, str]:
    """The variables of processes whose clock of the day is ahead, or behind; their monotonic clock is right."""
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{ahead_s:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
