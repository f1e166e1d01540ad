"""Identity of a table's topic: a unique id that is assigned when the topic is created with the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.errors import NotFound
from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogLocation

_MARK: Final = "#"
"""A separator that no topic name contains; log ids without it are of tables from before topics had ids."""


CHECK_EVERY_S: Final = 5.0
"""Seconds between two checks of an active client that its topic was not replaced."""


def log_id_of(topic: str, identity: str) -> str:
    """The log id that a table stores for its topic."""
    return f"{topic}{_MARK}{identity}"


def identity_in(location: LogLocation) -> str | None:
    """The id of a table's topic; None if the table stores only its name."""
    _, mark, identity = location.log_id.rpartition(_MARK)
    return identity if mark else None


def missing(location: LogLocation, why: str) -> NotFound:
    """The error for a topic that was deleted, or that lacks partitions."""
    return NotFound(
        f"topic '{location.topic}' {why} on {location.address}: it was deleted outside lakelog. The rows are in the "
        "files; recreate the table to write to a log again"
    )


def check_identity(location: LogLocation, found: str | None) -> None:
    """Raises NotFound if another topic has the name of the table's topic."""
    identity = identity_in(location)
    if identity is not None and found != identity:
        raise NotFound(
            f"topic '{location.topic}' on {location.address} is not the one that was created with the table: that "
            "topic was deleted and another one has its name, or 'log-store.address' is another cluster. The rows "
            "are in the files; recreate the table to write to a log again"
        )


class IdentityWatch:
    """Periodic check that the topic of an open client was not replaced, because servers do not notify clients.

    ``check`` sends a request and raises NotFound if the topic was deleted or replaced. The client is stale from then
    on. The caller has checked once before it creates the watch.
    """

    def __init__(self, check: Callable[[], object]) -> None:
        self._check, self._next_s = check, monotonic_s() + CHECK_EVERY_S
        self.is_stale = False

    def check(self) -> None:
        """Checks the topic if the last check is older than ``CHECK_EVERY_S``.

        Raises NotFound, and Unavailable for an unavailable server.
        """
        if self.is_stale or monotonic_s() >= self._next_s:
            self._check_now()

    def check_next_time(self) -> None:
        """Makes the next use check the topic. Called after an error."""
        self._next_s = 0.0

    def _check_now(self) -> None:
        try:
            self._check()
        except NotFound:
            self.is_stale = True
            raise
        self._next_s = monotonic_s() + CHECK_EVERY_S
