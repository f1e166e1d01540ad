"""A cut: which snapshot of each table of a group belongs to one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import InvalidOption
from lakelog.options.formats import CUT
from lakelog.options.names import file_name_fault, visible
from lakelog.paimon.types.checked_values import check_version
from lakelog.paimon.types.json_record import JsonRecord, stored_as

NEWEST: Final = "newest"
"""The value of ``read.cut`` for the newest cut that all tables of a statement have."""


@dataclass(frozen=True)
class CutMember(JsonRecord):
    """A table of a cut: its identity, its name at that time, the snapshot, and a mark that proves the snapshot.

    ``mark`` is ``fingerprint_of`` the snapshot, because a rollback by another engine uses numbers again.
    """

    id: str
    table: str
    snapshot: int
    mark: str


@dataclass(frozen=True)
class Cut(JsonRecord):
    """Cut ``number`` of a group, recorded at ``time_ms`` by the clock of its writer.

    ``id`` is that of no other cut. ``position`` is that of the group's source, in the source's own form (an LSN): the
    snapshots of all members have exactly what comes before it.
    """

    group: str
    number: int
    id: str
    time_ms: int = field(metadata=stored_as("time"))
    position: str
    members: tuple[CutMember, ...] = field(metadata=stored_as("tables"))
    version: int = CUT

    @property
    def name(self) -> str:
        """What ``read.cut`` takes: group, number and id, as in ``lakelog_shop_5d7c1e2a-17-9f3a2c41``."""
        return f"{self.group}-{self.number}-{self.id}"

    def member(self, table_id: str) -> CutMember | None:
        """The snapshot of a table, by its identity; None for a table that is not in the cut."""
        return next((member for member in self.members if member.id == table_id), None)

    @staticmethod
    def parse(data: bytes) -> Cut:
        """The reverse of ``to_json``. Raises Corrupt, UnsupportedFeature for a later version."""
        cut = Cut.from_json(data)
        check_version(cut.version, CUT, "a cut")
        return cut


def group_and_number(name: str) -> tuple[str, int]:
    """Group and number of the name of a cut. Raises InvalidOption."""
    head, _, tail = name.rpartition("-")
    group, _, number = head.rpartition("-")
    if not (tail and number.isascii() and number.isdigit()) or len(number) > 18 or file_name_fault(group):
        raise InvalidOption(
            f"'{visible(name)}' is not a cut: write '{NEWEST}', or the name of a cut, which Lake.cut has"
        )
    return group, int(number)
