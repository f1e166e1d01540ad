"""The links of a log that follows the files: which snapshot the log adds up to, and the decided records after it.

Files ``lakelog/published/<table id>/<n>``, n = 1, 2, 3, …, each created if absent (RFC 14). The newest one counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import orjson

from lakelog.errors import NotFound
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import checked, metadata_json, read_as
from lakelog.table.model.dynamic_table import DynamicTable

_DIGITS: Final = 19
_KEPT: Final = 2
"""Number of links that stay; a reader may be about to read the last but one."""


@dataclass(frozen=True)
class PublishedLink:
    """Link ``number``: the log adds up to snapshot ``base`` below the offsets ``since``, by bucket.

    The records of ``attempt`` after these offsets lead on to ``snapshot``. Without an attempt, the two snapshots have
    the same rows. Snapshot 0 is the empty table. ``mark`` identifies ``snapshot``, because a rollback by another engine
    uses numbers again. ``firsts`` are the offset of the attempt's first record and ``entries`` the number of its
    entries, by bucket.
    """

    number: int = 0
    base: int = 0
    snapshot: int = 0
    since: Mapping[int, int] = field(default_factory=dict)
    attempt: str = ""
    firsts: Mapping[int, int] = field(default_factory=dict)
    entries: Mapping[int, int] = field(default_factory=dict)
    mark: str = ""

    def is_at(self, snapshot: Snapshot | None) -> bool:
        """True if the link leads to this snapshot."""
        return self.snapshot == (0 if snapshot is None else snapshot.id) and self.mark == fingerprint_of(snapshot)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return orjson.dumps(asdict(self), option=orjson.OPT_NON_STR_KEYS)

    @staticmethod
    def from_bytes(data: bytes) -> PublishedLink:
        """The reverse of ``to_bytes``."""
        found = metadata_json(data)
        for name in ("since", "firsts", "entries"):
            found[name] = {int(bucket): int(value) for bucket, value in found[name].items()}
        return checked(PublishedLink(**found))


def fingerprint_of(snapshot: Snapshot | None) -> str:
    """A name that no other snapshot of this number has."""
    return "" if snapshot is None else snapshot.delta_manifest_list


@dataclass(frozen=True)
class PublishedLinks:
    """The links of one table; those of an earlier table at this path have another directory, and take no number."""

    io: FileIO
    directory: str

    @staticmethod
    def of(table: DynamicTable) -> PublishedLinks:
        """The links of a table."""
        return PublishedLinks(table.io, f"{table.store.paths.branch_root}/lakelog/published/{table.identity.id or '-'}")

    def last(self) -> PublishedLink:
        """The newest link; link 0 of a log that is still empty.

        A listing may miss the newest link, so the next numbers are read until one is missing.
        """
        found = PublishedLink()
        while not found.number and (numbers := self._numbers()):  # others may forget all of them before they are read
            found = next((own for n in sorted(numbers, reverse=True) if (own := self._read(n)) is not None), found)
        while (following := self._read(found.number + 1)) is not None:
            found = following
        return found

    def create(self, link: PublishedLink) -> bool:
        """Creates a link if its number is free. Raises CommitUnknown."""
        return self.io.create(self._path(link.number), link.to_bytes())

    def forget_before(self, link: PublishedLink) -> None:
        """Deletes links that no reader needs any more."""
        for number in self._numbers():
            if number <= link.number - _KEPT:
                self.io.delete(self._path(number))

    def _numbers(self) -> list[int]:
        return [int(s.name) for s in self.io.list(self.directory) if s.name.isdigit() and len(s.name) == _DIGITS]

    def _path(self, number: int) -> str:
        return f"{self.directory}/{number:0{_DIGITS}d}"

    def _read(self, number: int) -> PublishedLink | None:
        with contextlib.suppress(NotFound):
            return read_as(self.io, self._path(number), PublishedLink.from_bytes)
        return None
