"""The positions of named readers, which protect snapshots from expiry (format sheet 1, 12)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import orjson

from lakelog.errors import Corrupt, InvalidRequest, NotFound
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.storage_clock import StorageClock
from lakelog.options.names import name_fault, visible
from lakelog.paimon.types.checked_values import metadata_json

_NAME: Final = re.compile(r"consumer-(.+)")


@dataclass(frozen=True)
class Consumer:
    """A reader: its next snapshot, the time of its last progress (milliseconds), and its materialized view, if any."""

    name: str
    next_snapshot: int
    moved_ms: int
    view: str = ""


@dataclass(frozen=True)
class Consumers:
    """The consumers of one branch of a table."""

    io: FileIO
    paths: TablePaths

    def list(self) -> Sequence[Consumer]:
        """All consumers, by name."""
        out = []
        for status in self.io.list(self.paths.consumers):
            match = _NAME.fullmatch(status.name)
            stored = self._read(match[1]) if match else None
            if match and stored is not None:
                out.append(Consumer(match[1], stored[0], status.mtime_ms, stored[1]))
        return out

    def position(self, name: str) -> int | None:
        """The next snapshot of a consumer; None for an unknown consumer."""
        stored = self._read(name)
        return None if stored is None else stored[0]

    def smallest(self) -> int | None:
        """The oldest snapshot that a consumer still needs; None without consumers."""
        return min((c.next_snapshot for c in self.list()), default=None)

    def record(self, name: str, next_snapshot: int, view: str = "") -> None:
        """Records that a consumer has read all snapshots before ``next_snapshot``; ``view`` is its materialized view.

        Called by streaming readers, and to reset a consumer. Raises InvalidRequest for an invalid name or id.
        """
        if fault := name_fault(name):
            raise InvalidRequest(f"'{visible(name)}' cannot be the name of a consumer: {fault}")
        if next_snapshot < 1:
            raise InvalidRequest(f"consumer '{name}' cannot be at snapshot {next_snapshot}: ids start at 1")
        stored = {"nextSnapshot": next_snapshot, **({"view": view} if view else {})}  # Paimon ignores other keys
        self.io.write(self.paths.consumer(name), orjson.dumps(stored))

    def delete(self, name: str) -> None:
        """Deletes a consumer. Raises NotFound."""
        if not self.io.exists(self.paths.consumer(name)):
            known = ", ".join(c.name for c in self.list()) or "none"
            raise NotFound(f"table {self.paths.table} has no consumer '{name}'; it has: {known}")
        self.io.delete(self.paths.consumer(name))

    def expire(self, older_than: timedelta) -> Sequence[Consumer]:
        """Deletes the consumers without progress for this time, and returns them."""
        age_ms, clock = older_than.total_seconds() * 1000, StorageClock(self.io, self.paths.root)
        expired = [consumer for consumer in self.list() if clock.is_older(consumer.moved_ms, age_ms)]
        for consumer in expired:
            self.io.delete(self.paths.consumer(consumer.name))
        return expired

    def _read(self, name: str) -> tuple[int, str] | None:
        """The next snapshot and the view of a consumer."""
        path = self.paths.consumer(name)
        try:
            values = metadata_json(self.io.read(path))
            return int(values["nextSnapshot"]), str(values.get("view", ""))
        except NotFound:
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as why:
            raise Corrupt(f"'{path}' is not a valid consumer position: {why}") from None
