"""The cuts that one table has a copy of: files ``lakelog/cuts/<table id>/<group>-<number>``, each created if absent.

Each table of a cut has a copy of the whole record. A copy is right from its creation, with or without the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.filestore.store import FileStore
from lakelog.io.journal import Journal
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.types.checked_values import parsing
from lakelog.table.cuts.cut import Cut

_DIGITS: Final = 19


@dataclass(frozen=True)
class CutRecords:
    """The records of one table; those of an earlier table at this path have another directory."""

    io: FileIO
    directory: str
    table_id: str

    @staticmethod
    def of(store: FileStore) -> CutRecords:
        """The records of a table. Reads the first schema if the table has no id."""
        assert store.identity is not None  # of a table that was opened by its name
        table_id = store.identity.text
        return CutRecords(store.io, f"{store.paths.branch_root}/lakelog/cuts/{table_id}", table_id)

    def numbers(self) -> Mapping[str, Sequence[int]]:
        """Group → the numbers of its cuts, ascending."""
        out: dict[str, list[int]] = {}
        for file in self.io.list(self.directory):
            group, _, number = file.name.rpartition("-")
            if group and len(number) == _DIGITS and number.isdecimal():
                out.setdefault(group, []).append(int(number))
        return {group: sorted(numbers) for group, numbers in out.items()}

    def read(self, group: str, number: int) -> Cut | None:
        """A cut; None if there is no such record. Raises Corrupt, UnsupportedFeature."""
        journal = self._journal(group)
        data = journal.read(number)
        with parsing(journal.path(number)):
            return None if data is None else Cut.parse(data)

    def create(self, cut: Cut) -> bool:
        """Creates the copy of a cut; False if its number is taken. Raises CommitUnknown."""
        return self._journal(cut.group).create(cut.number, cut.to_json())

    def delete_below(self, group: str, number: int) -> None:
        """Deletes the cuts of a group below a number."""
        self._journal(group).delete_below(number)

    def _journal(self, group: str) -> Journal:
        return Journal(self.io, self.directory, f"{group}-", _DIGITS)
