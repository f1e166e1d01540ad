"""What a Python worker of Spark does before it ends: Spark ends its workers by SIGHUP, without ``atexit``."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_LONGEST_S = 30.0
"""A store that does not answer keeps no process alive for longer."""
_AT_WORK = False
_ENDED = False


@contextlib.contextmanager
def ending_later(last: Callable[[], None]) -> Iterator[None]:
    """Runs a block that SIGHUP does not interrupt; from then on a SIGHUP calls ``last`` before this process ends.

    Called in the main thread of a worker, which is where Spark runs sinks; in another thread it does nothing.
    """
    global _AT_WORK
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end() -> None:
        limit = threading.Timer(_LONGEST_S, os._exit, (1,))
        limit.daemon = True
        limit.start()
        try:
            last()
        finally:
            os._exit(0)

    def ended(_: int, __: FrameType | None) -> None:
        global _ENDED
        _ENDED = True
        if not _AT_WORK:
            end()

    signal.signal(signal.SIGHUP, ended)
    _AT_WORK = True
    try:
        yield
    finally:
        _AT_WORK = False
        if _ENDED:
            end()
