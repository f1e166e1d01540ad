"""How a table knows its topic again: by an id that only the topic which was made with it has."""

from __future__ import annotations

from typing import Final

from lakelog.errors import NotFound
from lakelog.logstore.base import LogLocation

_MARK: Final = "#"
"""No topic's name has it; ids without it are of tables made before topics were known by more than their name."""


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
