"""The log in files of the table's storage: segments that are created in order, without a server (RFC 15)."""

from __future__ import annotations

from typing import Final

from lakelog.logstore.factory import LogFactory

FILES: Final = LogFactory(
    name="files",
    system="lakelog.logstore.files.system:FilesLogSystem",
    address="the path of a directory",
    file="lakelog/log",
    any_storage=True,
    data_format="arrow",
)
