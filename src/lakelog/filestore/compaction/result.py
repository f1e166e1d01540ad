"""What a compaction of one bucket changes: the files, and the deletion vectors beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.filestore.commit.request import IndexChange
from lakelog.paimon.metadata.data_file import BucketFiles


@dataclass(frozen=True)
class CompactionResult:
    """Made by a compactor, committed by whoever asked for the compaction; nothing is visible before that.

    ``files`` are new, replaced and changelog files of the bucket, ``index`` its new index files.
    """

    files: BucketFiles
    index: IndexChange = IndexChange()

    def __bool__(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.files.new_files or self.files.deleted_files or self.files.changelog_files or self.index)


def joined_index(results: Sequence[CompactionResult]) -> IndexChange:
    """The index changes of several buckets as one."""
    return IndexChange(
        tuple(entry for r in results for entry in r.index.added),
        frozenset(name for r in results for name in r.index.deleted),
        tuple(seen for r in results for seen in r.index.seen),
    )
