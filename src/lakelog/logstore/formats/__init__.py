"""Formats of a log record's key and value: one file each."""

from __future__ import annotations

from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.options import parts
from lakelog.options.log import DATA_FORMAT, LOG_ADOPT
from lakelog.options.option import Options
from lakelog.options.registry import Registry

LOG_FORMATS: Registry[LogFormat] = parts.LOG_FORMATS


def log_format(name: str) -> LogFormat:
    """The format of this name; raises InvalidRequest for an unknown one."""
    return LOG_FORMATS.create(name)


def other_writer(options: Options) -> str:
    """The option of a table by which another system writes its log, with its value; "" if none does."""
    if options.need(LOG_ADOPT):
        return f"'{LOG_ADOPT.key}' = 'true'"
    name = options.need(DATA_FORMAT)
    return "" if LOG_FORMATS.load(name).is_written else f"'{DATA_FORMAT.key}' = '{name}'"
