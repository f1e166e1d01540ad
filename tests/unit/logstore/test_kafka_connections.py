from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from lakelog.logstore.kafka import connections


class Closed:
    """What a client must close."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Client:
    """An object that can be freed."""


def test_the_connections_of_a_thread_that_ends_are_closed() -> None:
    before = set(threading.enumerate())  # perhaps with threads of libraries of earlier tests
    held, manager, loop = threading.local(), Closed(), Closed()

    def work() -> None:
        held.client = Client()
        given: Any = (manager, loop, os.getpid(), threading.current_thread())
        weakref.finalize(held.client, connections._close_unused, *given)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert manager.is_closed
    assert loop.is_closed
    assert not [t for t in threading.enumerate() if t not in before and isinstance(t, threading._DummyThread)]
