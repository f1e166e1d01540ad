"""The data files of one job; leftovers of attempts are found by name, without a stored list."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lakelog.errors import LakelogError
from lakelog.filestore.gc.orphans import bucket_directories
from lakelog.filestore.write.data_file_writer import FileNames
from lakelog.io.logs import fields
from lakelog.io.names import new_uuid
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable

_LOG: Final = logging.getLogger(__name__)
_SHARED: Final = 18
"""Number of UUID characters that all files of a job share: 60 random bits."""
_THREADS: Final = 8


@dataclass(frozen=True)
class JobFiles:
    """The files of all attempts of all tasks of one job; ``job`` is a UUID, half of which is in their names.

    A task deletes its files if it fails, but not if its process is killed. A finished task does not know that its job
    failed. The driver calls ``remove_uncommitted`` after the job is committed, and ``remove_all`` if it never will be.
    Only an attempt that is still alive then leaves files, for orphan cleaning. Neither method raises.
    """

    job: str

    def new_names(self) -> FileNames:
        """Names for the files of one bucket of one attempt."""
        return FileNames(f"{self.job[:_SHARED]}{new_uuid()[_SHARED:]}")

    def remove_uncommitted(self, table: DynamicTable, results: Sequence[AttemptResult]) -> None:
        """Deletes the files of attempts that were not accepted, in the buckets in which accepted ones wrote files."""
        runs = [run for result in results for run in result.runs if run.files]
        names = (file.file_name for run in runs for file in (*run.files, *run.changelog))
        accepted = {match[0] for name in names if (match := self._own.search(name))}
        paths = table.store.paths
        self._remove(table, {paths.bucket_dir(run.partition, run.bucket) for run in runs}, accepted)

    def remove_all(self, table: DynamicTable) -> None:
        """Deletes every file of the job, none of which will ever be committed."""
        try:
            directories = list(bucket_directories(table.io, table.store.paths))
        except LakelogError as why:
            about = fields(table=table.name)
            _LOG.warning("table %s: files of a failed write stay for orphan cleaning: %s", table.name, why, extra=about)
            return
        self._remove(table, directories, frozenset())

    @property
    def _own(self) -> re.Pattern[str]:
        """A pattern for the UUID in a file name of this job; it names all files of a bucket and an attempt."""
        return re.compile(rf"{re.escape(self.job[:_SHARED])}-[0-9a-f]{{4}}-[0-9a-f]{{12}}")

    def _remove(self, table: DynamicTable, directories: Iterable[str], accepted: Collection[str]) -> None:
        pattern = self._own

        def clean(directory: str) -> None:
            try:
                for status in table.io.list(directory):
                    match = pattern.search(status.name)
                    if match and match[0] not in accepted and not status.is_dir:
                        table.io.delete(f"{directory}/{status.name}")
            except LakelogError as why:
                _LOG.warning(
                    "table %s: lost files in %s stay for orphan cleaning: %s",
                    table.name, directory, why, extra=fields(table=table.name),
                )  # fmt: skip

        with ThreadPoolExecutor(_THREADS, "job-files") as threads:
            for _ in threads.map(clean, directories):
                pass
