"""The owner that makes a table's snapshots visible instead of the storage: the server of a catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PartitionChange:
    """The change of one partition by one commit: added − removed, from its manifest entries.

    ``spec`` has the values of the partition columns as text, as in the directory; ``newest_ms`` is the creation time of
    the newest file.
    """

    spec: Mapping[str, str]
    rows: int
    size: int
    files: int
    newest_ms: int
    buckets: int


class SnapshotOwner(ABC):
    """The committer of a table; frozen and picklable, because all users of the table's storage commit through it."""

    @abstractmethod
    def commit(self, branch: str, snapshot: bytes, changes: Sequence[PartitionChange]) -> bool:
        """Makes a snapshot visible if its number is free. Returns False if another commit has taken it.

        ``snapshot`` is the JSON of its file, which the owner writes. Raises CommitUnknown if the response was lost
        (check the snapshot's file), TableReplaced, CommitConflict, Unavailable (nothing was changed).
        """

    @abstractmethod
    def create_branch(self, name: str, tag: str | None) -> None:
        """Creates a branch from a tag, or an empty one without a tag.

        Raises AlreadyExists, NotFound, CommitUnknown (check whether the branch exists), Unavailable.
        """

    @abstractmethod
    def drop_branch(self, name: str) -> None:
        """Deletes a branch; its unshared data files stay. Raises NotFound, CommitUnknown, Unavailable."""
