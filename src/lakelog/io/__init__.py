"""Bytes, clock, names, randomness: all that touches the world outside of the process."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from lakelog.errors import UnsupportedFeature
from lakelog.io.locks import lock_of
from lakelog.io.storage.delegating import LOG, LockedFileIO, LoggedFileIO
from lakelog.io.storage.file_io import FileIO
from lakelog.options.registry import Registry
from lakelog.options.storage import STORAGE_OPTIONS

_OBJECT_STORE = "lakelog.io.storage.object_store:ObjectStoreFileIO.of"
_HDFS = "lakelog.io.storage.hdfs:HdfsFileIO.of"

STORAGES: Registry[FileIO] = Registry(
    "storage",
    {
        "file": "lakelog.io.storage.local:LocalFileIO.of",
        "s3": _OBJECT_STORE,
        "s3a": _OBJECT_STORE,
        "gs": _OBJECT_STORE,
        "az": _OBJECT_STORE,
        "abfs": _OBJECT_STORE,
        "abfss": _OBJECT_STORE,
        "hdfs": _HDFS,
        "viewfs": _HDFS,
    },
    {"obstore": "s3", "hdfs_native": "hdfs"},
)
"""URI scheme → storage class, constructed with storage options with canonical keys."""
SPARK_SCHEMES: Final = ("file", "hdfs", "viewfs")
"""Schemes whose files Spark itself reads and writes without further settings."""


def scheme_of(path: str) -> str:
    """The scheme of a URI in lower case; ``file`` for a path without one."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", path)
    return match[1].lower() if match else "file"


def file_io_for(warehouse: str, options: Mapping[str, str] | None = None) -> FileIO:
    """The storage of a warehouse: a local path, or a URI whose scheme has a storage.

    ``options`` are storage options in any spelling. Raises UnsupportedFeature for an unknown scheme, which lists the
    supported ones, InvalidOption, and NotInstalled with the pip command.
    """
    canonical = STORAGE_OPTIONS.canonical(options or {}, "lake")
    scheme = scheme_of(warehouse)
    if scheme not in STORAGES:
        raise UnsupportedFeature(
            f"warehouse '{warehouse}' has scheme '{scheme}': give a local path, or a URI of: {', '.join(STORAGES)}"
        )
    storage = STORAGES.create(scheme, canonical)
    if LOG.isEnabledFor(logging.DEBUG):
        storage = LoggedFileIO(storage)
    lock = lock_of(canonical)
    return storage if lock is None else LockedFileIO(storage, lock)
