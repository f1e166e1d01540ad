"""What a Python worker of Spark does before it ends: Spark ends its workers by SIGHUP or ``os._exit``, without
``atexit``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

_Handler = Callable[[int, FrameType | None], Any] | int | None
_LONGEST_S = 30.0
"""A store that does not answer keeps no process alive for longer."""
_EXIT = os._exit
_SIGNAL = signal.signal


class _End:
    """The end of this process, which waits for the block that is at work and comes once."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.last: Callable[[], None] = lambda: None
        self.at_work = False
        self._asked = self._begun = False

    def hang_up(self, _: int, __: FrameType | None) -> None:
        """Spark's daemon ends: so does this worker, after the block that is at work."""
        self._asked = True
        self.when_idle()

    def keep(self, signalnum: int, handler: _Handler) -> _Handler:
        """Takes the place of ``signal.signal``: Spark's daemon resets SIGHUP each time that a worker is used again."""
        if signalnum == signal.SIGHUP and handler is signal.SIG_DFL and self.process == os.getpid():
            return signal.getsignal(signalnum)
        return _SIGNAL(signalnum, handler)

    def when_idle(self) -> None:
        """Ends this process if it was asked to and nothing is at work."""
        if self._asked and not self.at_work and not self._begun:
            self.exit(0)

    def exit(self, status: int) -> NoReturn:
        """Takes the place of ``os._exit``, which a worker calls when Spark closes its socket before the signal."""
        if self.process != os.getpid() or self._begun:  # a forked child, or a second call
            _EXIT(status)
        self._begun = True
        limit = threading.Timer(_LONGEST_S, _EXIT, (1,))
        limit.daemon = True
        limit.start()
        try:
            self.last()
        finally:
            _EXIT(status)


_END = _End()


@contextlib.contextmanager
def ending_later(last: Callable[[], None]) -> Iterator[None]:
    """Runs a block that SIGHUP does not interrupt; from then on ``last`` is called before this process ends.

    Called in the main thread of a worker, which is where Spark runs sinks; in another thread it does nothing.
    """
    global _END
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if _END.process != os.getpid() or os._exit is _EXIT:
        _END = _End()
        _SIGNAL(signal.SIGHUP, _END.hang_up)
        signal.signal = _END.keep
        os._exit = _END.exit
    _END.last, _END.at_work = last, True
    try:
        yield
    finally:
        _END.at_work = False
        _END.when_idle()
