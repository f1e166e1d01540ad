"""How a table knows its topic again: by an id that only the topic which was made with it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.errors import NotFound
from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogLocation

_MARK: Final = "#"
"""No topic's name has it; ids without it are of tables made before topics were known by more than their name."""


LOOK_EVERY_S: Final = 5.0
"""So often a client that is at work asks whether its topic is still the one that it has opened."""


def log_id_of(topic: str, identity: str) -> str:
    """The log id that a table keeps of its topic."""
    return f"{topic}{_MARK}{identity}"


def identity_in(location: LogLocation) -> str | None:
    """What the topic of a table is known by; None when the table knows its name only."""
    _, mark, identity = location.log_id.rpartition(_MARK)
    return identity if mark else None


def missing(location: LogLocation, why: str) -> NotFound:
    """The error for a topic that is not there any more, or not with all of its partitions."""
    return NotFound(
        f"topic '{location.topic}' {why} on {location.address}: it was deleted behind the table's back. The rows are "
        f"in the files; make the table anew to log again"
    )


def check_identity(location: LogLocation, found: str | None) -> None:
    """Raises NotFound when another topic has the name of the table's one."""
    wanted = identity_in(location)
    if wanted is not None and found != wanted:
        raise NotFound(
            f"topic '{location.topic}' on {location.address} is not the one that was made with the table: that one was "
            f"deleted, and another was made with its name, or 'log-store.address' leads to another cluster. The rows "
            f"are in the files; make the table anew to log again"
        )


class Watch:
    """Whether the topic of an open client is still the one that was opened: a server tells it only when it is asked.

    ``check`` asks, and raises NotFound when it is gone or another one; the client is stale from then on. It has been
    asked when the watch is made.
    """

    def __init__(self, check: Callable[[], object]) -> None:
        self._check, self._next_s = check, monotonic_s() + LOOK_EVERY_S
        self.is_stale = False

    def look(self) -> None:
        """Asks, if it was long ago: with the first use after a pause, and from time to time.

        Raises NotFound, and Unavailable for a server that is away.
        """
        if self.is_stale or monotonic_s() >= self._next_s:
            self._look()

    def look_soon(self) -> None:
        """Has the next use ask. Called when something went wrong."""
        self._next_s = 0.0

    def _look(self) -> None:
        try:
            self._check()
        except NotFound:
            self.is_stale = True
            raise
        self._next_s = monotonic_s() + LOOK_EVERY_S
