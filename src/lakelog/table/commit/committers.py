"""Committers of the streaming writers of this process."""

from __future__ import annotations

import os
import threading

from lakelog.table.commit.committer import Committer
from lakelog.table.model.dynamic_table import DynamicTable

_COMMITTERS: dict[tuple[int, str, str], Committer] = {}
_LOCK = threading.Lock()


def committer_for(table: DynamicTable, writer: str) -> Committer:
    """The committer of a streaming writer in this process; kept, so that a quiet epoch reads nothing."""
    with _LOCK:
        key = (os.getpid(), table.identity.key, writer)
        found = _COMMITTERS.get(key)
        if found is None:
            found = _COMMITTERS[key] = Committer(table, writer)
        found.table = table
        return found
