"""The links of a log that follows the files: which snapshot the log adds up to, and the decided records after it.

Files ``lakelog/published/<table id>/<n>``, n = 1, 2, 3, …, each created if absent (RFC 14). The newest one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import orjson

from lakelog.io.journal import Journal
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.types.checked_values import checked, metadata_json, parsing
from lakelog.table.model.dynamic_table import DynamicTable

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
        values = metadata_json(data)
        for name in ("since", "firsts", "entries"):
            values[name] = {int(bucket): int(value) for bucket, value in values[name].items()}
        return checked(PublishedLink(**values))


def fingerprint_of(snapshot: Snapshot | None) -> str:
    """A name that no other snapshot of this number has."""
    return "" if snapshot is None else snapshot.delta_manifest_list


@dataclass(frozen=True)
class PublishedLinks:
    """The links of one log of a table; those of an earlier log or table at this path have another directory."""

    io: FileIO
    directory: str

    @staticmethod
    def of(table: DynamicTable) -> PublishedLinks:
        """The links of a table."""
        log = f"-{table.log_generation}" if table.log_generation else ""
        root = f"{table.store.paths.branch_root}/lakelog/published"
        return PublishedLinks(table.io, f"{root}/{table.identity.id or '-'}{log}")

    def last(self) -> PublishedLink:
        """The newest link; link 0 of a log that is still empty.

        A listing may miss the newest link, so the next numbers are read until one is missing.
        """
        link = PublishedLink()
        while not link.number and (
            numbers := self._journal.files()
        ):  # others may forget all of them before they are read
            link = next((found for n in reversed(numbers) if (found := self._read(n)) is not None), link)
        while (following := self._read(link.number + 1)) is not None:
            link = following
        return link

    def create(self, link: PublishedLink) -> bool:
        """Creates a link if its number is free. Raises CommitUnknown."""
        return self._journal.create(link.number, link.to_bytes())

    def forget_before(self, link: PublishedLink) -> None:
        """Deletes links that no reader needs any more."""
        self._journal.delete_below(link.number - _KEPT + 1)

    @property
    def _journal(self) -> Journal:
        return Journal(self.io, self.directory)

    def _read(self, number: int) -> PublishedLink | None:
        data = self._journal.read(number)
        with parsing(self._journal.path(number)):
            return None if data is None else PublishedLink.from_bytes(data)
