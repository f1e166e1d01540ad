"""Counts a commit: how long it took, what it added, what it failed with."""

from __future__ import annotations

import logging
from typing import Final

from lakelog.errors import LakelogError
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.logs import fields
from lakelog.io.metrics import METER
from lakelog.options.metrics import BYTES_WRITTEN, COMMIT_DURATION, COMMIT_FAILURES, COMMITS, ROWS_WRITTEN
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot

_LOG: Final = logging.getLogger("lakelog.commit")


def counted_commit(commit: TableCommit, request: CommitRequest, table: str) -> Snapshot:
    """Commits, see ``TableCommit.commit``; the rows of a compaction were there before and do not count as written."""
    try:
        with METER.step("commit", table=table, kind=request.kind) as told:
            snapshot = commit.commit(request)
            told.tell(snapshot=snapshot.id)
    except LakelogError as why:
        METER.add(COMMIT_FAILURES, table=table, error=type(why).__name__)
        raise
    METER.add(COMMITS, table=table, kind=request.kind)
    METER.observe(COMMIT_DURATION, told.seconds, table=table, kind=request.kind)
    if request.kind != COMPACT:
        files = [file for bucket in request.files for file in bucket.new_files]
        METER.add(ROWS_WRITTEN, sum(file.row_count for file in files), table=table, store="files")
        METER.add(BYTES_WRITTEN, sum(file.file_size for file in files), table=table, store="files")
    _LOG.info(
        "table %s: snapshot %d (%s) in %.3f s", table, snapshot.id, request.kind, told.seconds,
        extra=fields(table=table, snapshot=snapshot.id, kind=request.kind, duration_s=round(told.seconds, 4)),
    )  # fmt: skip
    return snapshot
