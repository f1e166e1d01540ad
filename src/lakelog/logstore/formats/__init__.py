"""Formats of a log record's key and value: one file each."""

from __future__ import annotations

from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.options import parts
from lakelog.options.registry import Registry

LOG_FORMATS: Registry[LogFormat] = parts.LOG_FORMATS


def log_format(name: str) -> LogFormat:
    """The format of this name; raises InvalidRequest for an unknown one."""
    return LOG_FORMATS.create(name)
