"""The audit log: one line of JSON per statement, login or action, in a file that is rotated by size."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from lakelog.sql.syntax.masking import without_secrets

_SHOWN: Final = 10_000
"""Maximum characters of a statement in the log."""


@dataclass(frozen=True)
class AuditEntry:
    """One statement: its start (ms since 1970), its user, and its outcome.

    ``outcome`` is done, failed, refused or cancelled, ``error`` the class of the error. ``duration_ms`` and
    ``rows`` (shown, or received by a stream) are None for a statement that never began. ``kind`` is ``access`` for
    a login and the end of a session, ``action`` for maintenance that was started from a page, ``export`` for all
    rows of a table. ``address`` is that of the client.
    """

    time_ms: int
    user: str
    role: str
    catalog: str
    database: str
    text: str
    outcome: str
    error: str | None = None
    duration_ms: int | None = None
    rows: int | None = None
    kind: str = "statement"
    address: str = ""


class AuditLog:
    """Appends entries. Each line is written at once, and only the owner can read the file.

    At ``max_bytes`` the file becomes ``<path>.1``, that one ``<path>.2``, and so on up to ``kept`` files. Thread-safe;
    one process writes a file.
    """

    def __init__(self, path: str | Path, max_bytes: int = 16 << 20, kept: int = 8) -> None:
        self.path = Path(path)
        self._max_bytes, self._kept = max_bytes, kept
        self._lock = threading.Lock()
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def append(self, entry: AuditEntry) -> None:
        """Writes an entry, with possible secrets in its text masked by asterisks."""
        text = without_secrets(entry.text)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
        line = orjson.dumps({**asdict(entry), "text": shown}, option=orjson.OPT_APPEND_NEWLINE)
        with self._lock:
            self._rotate(len(line))
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def newest(self, limit: int = 100) -> list[AuditEntry]:
        """The last entries, newest first, without torn and foreign lines."""
        entries: list[AuditEntry] = []
        with self._lock:
            for path in (self.path, *map(self._rotated_path, range(1, self._kept + 1))):
                if len(entries) >= limit or not path.exists():
                    break
                entries += list(_entries(path))[::-1]
        return entries[:limit]

    def _rotate(self, more: int) -> None:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size == 0 or size + more <= self._max_bytes:
            return
        self._rotated_path(self._kept).unlink(missing_ok=True)
        for number in range(self._kept - 1, 0, -1):
            if self._rotated_path(number).exists():
                self._rotated_path(number).rename(self._rotated_path(number + 1))
        if self._kept:
            self.path.rename(self._rotated_path(1))
        else:
            self.path.unlink()

    def _rotated_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def _entries(path: Path) -> Iterator[AuditEntry]:
    for line in path.read_bytes().splitlines():
        try:
            yield AuditEntry(**orjson.loads(line))
        except (orjson.JSONDecodeError, TypeError):
            continue
