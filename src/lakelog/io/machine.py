"""Which machine this is, and which of its processes run."""

from __future__ import annotations

import contextlib
import os
import platform
import uuid
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def machine_identity() -> str:
    """Host name and boot id: equal for processes that see the same local files and memory, as far as can be told.

    Where the system has no boot id, the number of its network card stands for it.
    """
    boot = f"{uuid.getnode():012x}"
    with contextlib.suppress(OSError):
        boot = _BOOT_ID.read_text().strip()
    return f"{platform.node()}/{boot}"


def is_running(process: int) -> bool:
    """Whether a process of this machine is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs for another user
        return True
    return True
