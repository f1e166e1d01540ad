"""A clock that is wrong: a library that takes the place of the C library's clock of the day (``clock.c``).

Debian's libfaketime cannot: with it ``time.sleep`` of Python 3.11 fails, which waits until a time of the right clock.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from hosts.network import NoHosts
from lakelog.service.servers.jars import jar_cache

_SOURCE: Final = Path(__file__).with_name("clock.c")


def clock_library() -> Path:
    """The library, compiled once. Raises NoHosts without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoHosts("a clock that is wrong needs a C compiler: apt-get install gcc libc6-dev")
    name = f"clock-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}.so"
    library = jar_cache().parent / "bin" / name
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        part = library.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(part), str(_SOURCE)], check=True)
        part.replace(library)
    return library


def wrong_clock(library: Path, ahead_s: int) -> dict[str, str]:
    """The variables of processes whose clock of the day is ahead, or behind."""
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD_S": str(ahead_s)}
