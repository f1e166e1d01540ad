"""Appenders and readers, cached per thread and log, because a new client costs milliseconds of each micro-batch."""

from __future__ import annotations

import os
import threading

from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import LogAppender, LogLocation, LogReader

_Key = tuple[int, int, LogLocation]
_APPENDERS: dict[_Key, LogAppender] = {}
_READERS: dict[_Key, LogReader] = {}
_LOCK = threading.Lock()
"""Held while the dictionaries change, not while a client connects."""


def appender_for(location: LogLocation) -> LogAppender:
    """This thread's appender of a log. Raises as ``LogSystem.appender`` (NotFound, Unavailable, InvalidRequest)."""
    key = (os.getpid(), threading.get_ident(), location)
    found = _APPENDERS.get(key)
    if found is None or found.is_stale:
        found = LOG_SYSTEMS.create(location.system).appender(location)
        with _LOCK:
            _APPENDERS[key] = found
    return found


def close_clients() -> None:
    """Closes the clients of this thread; lakelog's own threads call it before they end."""
    mine = (os.getpid(), threading.get_ident())
    held: tuple[dict[_Key, LogAppender], dict[_Key, LogReader]] = (_APPENDERS, _READERS)
    for clients in held:
        with _LOCK:
            ended = [clients.pop(key) for key in list(clients) if key[:2] == mine]
        for client in ended:
            client.close()


def reader_for(location: LogLocation) -> LogReader:
    """This thread's reader of a log."""
    key = (os.getpid(), threading.get_ident(), location)
    found = _READERS.get(key)
    if found is None or found.is_stale:
        found = LOG_SYSTEMS.create(location.system).reader(location)
        with _LOCK:
            _READERS[key] = found
    return found
