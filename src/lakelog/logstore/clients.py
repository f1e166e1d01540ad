"""Appenders and readers, cached per thread and log, because a new client costs milliseconds of each micro-batch."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from cachetools import LRUCache

from lakelog.errors import Unavailable
from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import LogAppender, LogLocation, LogReader

_Client = TypeVar("_Client", LogAppender, LogReader)
_MOST: Final = 64
"""Maximum number of appenders, and of readers, of a thread: each holds a few descriptors, also after its table is
dropped."""
_LIMIT_SHARE: Final = 16
"""Descriptors that the process may open for each of them."""


def _most_clients() -> int:
    """The number of appenders, and of readers, that a thread keeps under the limit of open files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if limit == resource.RLIM_INFINITY else max(2, min(_MOST, limit // _LIMIT_SHARE))


class _Clients(threading.local):
    """The clients of a thread, which end with it. The one that was used least recently makes room for a new one."""

    def __init__(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Forgets the clients without closing them."""
        self.appenders: LRUCache[LogLocation, LogAppender] = LRUCache(_most_clients())
        self.readers: LRUCache[LogLocation, LogReader] = LRUCache(_most_clients())
        _OF_THREADS.update({id(clients): clients for clients in (self.appenders, self.readers)})


_OF_THREADS: Final[WeakValueDictionary[int, object]] = WeakValueDictionary()
"""The clients of all threads."""
_CLIENTS: Final = _Clients()
_OF_PARENTS: Final[list[object]] = []
"""The clients that a fork has copied. Its parent uses them: they are neither used nor freed here."""
# a forked process frees what belonged to the other threads
os.register_at_fork(
    before=lambda: _OF_PARENTS.append([held() for held in _OF_THREADS.valuerefs()]),
    after_in_parent=lambda: _OF_PARENTS.pop(),
    after_in_child=_CLIENTS.drop,
)


def appender_for(location: LogLocation) -> LogAppender:
    """This thread's appender of a log. Raises as ``LogSystem.appender`` (NotFound, Unavailable, InvalidRequest)."""
    return _client(_CLIENTS.appenders, location, lambda: LOG_SYSTEMS.create(location.system).appender(location))


def reader_for(location: LogLocation) -> LogReader:
    """This thread's reader of a log. Raises as ``appender_for``."""
    return _client(_CLIENTS.readers, location, lambda: LOG_SYSTEMS.create(location.system).reader(location))


def close_clients() -> None:
    """Closes the clients of this thread; lakelog's own threads call it before they end."""
    ended: list[LogAppender | LogReader] = [*_CLIENTS.appenders.values(), *_CLIENTS.readers.values()]
    _CLIENTS.drop()
    for client in ended:
        client.close()


def drop_clients() -> None:
    """Forgets the clients of this thread without closing them, as the death of a process does."""
    _CLIENTS.drop()


def _client(clients: LRUCache[LogLocation, _Client], location: LogLocation, connect: Callable[[], _Client]) -> _Client:
    client = clients.get(location)
    if client is None or client.is_stale:
        while True:
            try:
                client = clients[location] = connect()
                break
            except Unavailable:
                if not _make_room():
                    raise
    return client


def _make_room() -> bool:
    """Frees the client of this thread that was used least recently if the process has no descriptor left."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for clients in (_CLIENTS.readers, _CLIENTS.appenders):
            if clients:
                clients.popitem()
                return True
    return False
