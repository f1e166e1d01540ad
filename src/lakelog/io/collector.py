"""CPython's cycle collector, held back where many small objects are made at a time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LOCK: Final = threading.Lock()
_holders = 0
_was_on = False


@contextmanager
def collector_held() -> Iterator[None]:
    """No collection while the block runs, in any thread; nested and concurrent blocks hold it together.

    Called around loops that make some objects for each of thousands of records and keep them for a moment: the
    collector would look through all of them after each 700 (measured with confluent-kafka: half of a record's CPU
    time). What such a loop makes is bounded by its callers and has no cycles; reference counts free it.
    """
    global _holders, _was_on
    with _LOCK:
        if _holders == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _holders += 1
    try:
        yield
    finally:
        with _LOCK:
            _holders -= 1
            if _holders == 0 and _was_on:
                gc.enable()
