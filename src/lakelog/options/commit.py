"""Options of commits and of the manifests that they write, with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lakelog.options.option import MemorySize, Option, options_in

_MiB: Final = 1 << 20
_WRITE: Final = ("table", "write")

MANIFEST_TARGET_SIZE: Final = Option(
    "manifest.target-file-size",
    MemorySize,
    MemorySize(8 * _MiB),
    "Target size of manifests. Smaller manifests may be merged.",
)
MANIFEST_MERGE_COUNT: Final = Option(
    "manifest.merge-min-count", int, 30, "Number of small manifests that starts a merge of them."
)
MANIFEST_FULL_COMPACTION_SIZE: Final = Option(
    "manifest.full-compaction-threshold-size",
    MemorySize,
    MemorySize(16 * _MiB),
    "Total size of changed manifests that starts a full rewrite.",
)
MANIFEST_COMPRESSION: Final = Option(
    "manifest.compression",
    str,
    "zstd",
    "Compression of manifests. Paimon's writers use null instead of none.",
    choices=("zstd", "none", "null"),
)

COMMIT_MAX_RETRIES: Final = Option(
    "commit.max-retries",
    int,
    None,
    "Maximum number of retries of a commit after a lost race. Default: no limit while other commits succeed, 10 "
    "retries otherwise.",
    _WRITE,
)
COMMIT_TIMEOUT: Final = Option(
    "commit.timeout", timedelta, None, "Maximum duration of commit retries. Default: no limit.", _WRITE
)
COMMIT_MIN_WAIT: Final = Option(
    "commit.min-retry-wait",
    timedelta,
    timedelta(milliseconds=10),
    "Delay before the first retry of a commit after a lost race.",
    _WRITE,
)
COMMIT_MAX_WAIT: Final = Option(
    "commit.max-retry-wait",
    timedelta,
    timedelta(seconds=10),
    "Maximum delay between retries of a commit after a lost race.",
    _WRITE,
)

COMMIT_OPTIONS: Final = options_in(globals())
