"""Locks for stores without create-if-absent, by kind."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.io.storage.delegating import CreateLock
from lakelog.options import parts
from lakelog.options.option import Options
from lakelog.options.registry import Registry
from lakelog.options.storage import NO_LOCK, STORAGE_LOCK, STORAGE_LOCK_ADDRESS

LOCKS: Registry[CreateLock] = parts.LOCKS
"""Kind of lock → class, constructed with its address."""


def lock_of(options: Mapping[str, str]) -> CreateLock | None:
    """The lock in these storage options (canonical keys). Raises InvalidOption if it has no address."""
    typed = Options(options)
    kind = typed.need(STORAGE_LOCK)
    return None if kind == NO_LOCK else LOCKS.create(kind, typed.need(STORAGE_LOCK_ADDRESS))
