"""What a lock for creating files promises: of all writers that use it, one at a time is inside."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Final

_SLOTS: Final = 64

WAIT_S: Final = 60.0
"""How long to wait for a lock; whoever holds it does two requests."""


class CreateLock(ABC):
    """A lock by path. A frozen, picklable value: every executor that has it takes part.

    It is free again when its holder dies, without a lease that could run out under a slow holder.
    """

    @abstractmethod
    def held(self, path: str) -> AbstractContextManager[None]:
        """Holds the lock of a path for a while.

        Raises Unavailable when it cannot be had in a minute, and CommitUnknown at the end when it may have been lost
        in between.
        """


def slot_of(path: str) -> int:
    """One of 64 numbers for the directory of a path: tables seldom wait for each other, and locks need no cleaning."""
    return zlib.crc32(path.rpartition("/")[0].encode()) % _SLOTS
