"""Logging of this process, with structured fields, as text or as JSON, without secrets."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import orjson

from lakelog.errors import InvalidOption
from lakelog.options.boundary import STATEMENT
from lakelog.options.environment import FORMATS, LEVELS, LOG_FORMAT, LOG_LEVEL

FIELDS: Final = ("table", "snapshot", "epoch", "writer", "bucket", "kind", "files", "rows", "duration_s")
"""The allowed fields of a log line, which loggers pass as ``extra``."""

_SECRET: Final = re.compile(
    r"((?:password|passwd|secret|token|credential|auth[-_.]?params|api[-_.]?key|access[-_.]?key|jaas[-_.]config)"
    r"[\w.\-]{0,64}+['\"]?\s{0,16}+[=:]\s{0,16}+)('[^']*'|\"[^\"]*\"|[^\s,;)}]+)",
    re.IGNORECASE,
)
_IN_URL: Final = re.compile(r"(?<!\w)(\w++://[^\s:/@]+:)[^\s@/]+(?=@)")


def fields(**values: object) -> dict[str, object]:
    """The ``extra`` of a line: the fields that are not None. Their names are in ``FIELDS``."""
    return {name: value for name, value in values.items() if value is not None}


def without_secrets(text: str) -> str:
    """A text in which asterisks replace values of secret-like names, and passwords in URLs."""
    return _IN_URL.sub(r"\1******", _SECRET.sub(r"\1******", text))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time`` (UTC), ``level``, ``logger``, ``message``, the fields, an ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **({"statement": number} if (number := STATEMENT.get()) else {}),
            **{name: getattr(record, name) for name in FIELDS if getattr(record, name, None) is not None},
        }
        if record.exc_info:
            line["error"] = without_secrets(self.formatException(record.exc_info))
        return orjson.dumps(line, default=str, option=orjson.OPT_UTC_Z).decode()


class TextFormatter(logging.Formatter):
    """Time, level, logger and message; the message contains the fields that people need."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def configure_logs(
    level: str | None = None,
    form: str | None = None,
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
) -> bool:
    """Configures lakelog's loggers to write lines from a level on to a stream (stderr), in a form of ``FORMATS``.

    The environment provides the defaults. Returns False, without changes, if neither sets anything. Raises
    InvalidOption for an unknown level or form.
    """
    level = level or environment.get(LOG_LEVEL)
    form = form or environment.get(LOG_FORMAT)
    if level is None and form is None:
        return False
    chosen, shown = (level or "info").lower(), (form or "text").lower()
    for name, given, known in ((LOG_LEVEL, chosen, LEVELS), (LOG_FORMAT, shown, FORMATS)):
        if given not in known:
            raise InvalidOption(f"{name} = '{given}' must be one of: {', '.join(known)}")
    logger = logging.getLogger("lakelog")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if shown == "json" else TextFormatter())
    logger.handlers[:] = [handler]
    logger.setLevel(chosen.upper())
    logger.propagate = False
    return True
