"""Bytes, clock, names, randomness: all that touches the world outside of the process."""

from __future__ import annotations

import re

from lakelog.errors import UnsupportedFeature
from lakelog.io.file_io import FileIO
from lakelog.options.registry import Registry

STORAGES: Registry[FileIO] = Registry("storage", {"file": "lakelog.io.local:LocalFileIO"})
"""URI scheme → storage."""


def file_io_for(warehouse: str) -> FileIO:
    """The storage of a warehouse: a local path, or a URI whose scheme has a storage.

    Raises UnsupportedFeature for another scheme, naming those that work.
    """
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", warehouse)
    scheme = found[1].lower() if found else "file"
    if scheme not in STORAGES:
        raise UnsupportedFeature(
            f"warehouse '{warehouse}' has scheme '{scheme}': give a local path, or a URI of: {', '.join(STORAGES)}"
        )
    return STORAGES.create(scheme)
