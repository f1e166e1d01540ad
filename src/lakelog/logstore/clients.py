"""Appenders and readers, cached per thread and log, because a new client costs milliseconds of each micro-batch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import LogAppender, LogLocation, LogReader

_Client = TypeVar("_Client", LogAppender, LogReader)
_Key = tuple[int, int, LogLocation]
_APPENDERS: dict[_Key, LogAppender] = {}
_READERS: dict[_Key, LogReader] = {}
_LOCK = threading.Lock()
"""Held while the dictionaries change, not while a client connects."""


def appender_for(location: LogLocation) -> LogAppender:
    """This thread's appender of a log. Raises as ``LogSystem.appender`` (NotFound, Unavailable, InvalidRequest)."""
    return _client(_APPENDERS, location, lambda: LOG_SYSTEMS.create(location.system).appender(location))


def reader_for(location: LogLocation) -> LogReader:
    """This thread's reader of a log."""
    return _client(_READERS, location, lambda: LOG_SYSTEMS.create(location.system).reader(location))


def close_clients() -> None:
    """Closes the clients of this thread; lakelog's own threads call it before they end."""
    mine = (os.getpid(), threading.get_ident())
    held: tuple[dict[_Key, LogAppender], dict[_Key, LogReader]] = (_APPENDERS, _READERS)
    for clients in held:
        with _LOCK:
            ended = [clients.pop(key) for key in list(clients) if key[:2] == mine]
        for client in ended:
            client.close()


def _client(clients: dict[_Key, _Client], location: LogLocation, connect: Callable[[], _Client]) -> _Client:
    key = (os.getpid(), threading.get_ident(), location)
    found = clients.get(key)
    if found is None or found.is_stale:
        found = connect()
        with _LOCK:
            clients[key] = found
    return found
