"""Options of reads that choose a point in time or a range of changes, with the keys of Apache Paimon (sheet 13)."""

from __future__ import annotations

from typing import Final

from lakelog.options.names import file_name_fault
from lakelog.options.option import Declared, Option

_READ: Final = ("table", "read")

SCAN_MODE: Final = Option(
    "scan.mode",
    str,
    "default",
    "Where a read of the files begins. default follows from the other scan options; a stream without any reads the "
    "newest snapshot whole, then its changes (latest-full). latest, earliest, from-snapshot and from-timestamp begin "
    "with the changes there; from-snapshot-full with that snapshot whole; compacted-full with the newest compaction.",
    _READ,
    choices=(
        "default",
        "latest-full",
        "full",
        "latest",
        "earliest",
        "compacted-full",
        "from-timestamp",
        "from-snapshot",
        "from-snapshot-full",
        "incremental",
    ),
)
SCAN_SNAPSHOT: Final = Option("scan.snapshot-id", int, None, "Read this snapshot; a stream begins with it.", _READ)
SCAN_TIMESTAMP: Final = Option(
    "scan.timestamp",
    str,
    None,
    "Read the newest snapshot of this time or before: '2024-01-31 12:00:00' in the machine's zone, or with an offset.",
    _READ,
)
SCAN_TIMESTAMP_MILLIS: Final = Option(
    "scan.timestamp-millis", int, None, "Read the newest snapshot of this time (ms since 1970) or before.", _READ
)
SCAN_TAG: Final = Option("scan.tag-name", str, None, "Read the snapshot that this tag names.", _READ)
SCAN_WATERMARK: Final = Option(
    "scan.watermark", int, None, "Read the first snapshot with this watermark (ms) or a later one.", _READ
)
SCAN_VERSION: Final = Option(
    "scan.version", str, None, "Read a tag, 'watermark-<ms>' or a snapshot id: what VERSION AS OF takes.", _READ
)
INCREMENTAL_BETWEEN: Final = Option(
    "incremental-between",
    str,
    None,
    "Read what changed between two snapshots 'a,b' (a excluded, b included) or two tags.",
    _READ,
)
INCREMENTAL_BETWEEN_TIMESTAMP: Final = Option(
    "incremental-between-timestamp",
    str,
    None,
    "Read what changed between two times 'a,b': ms since 1970, or text as for scan.timestamp.",
    _READ,
)
INCREMENTAL_MODE: Final = Option(
    "incremental-between-scan-mode",
    str,
    "auto",
    "What changes between two snapshots are: the rows of new files (delta), changelog files, or the comparison of "
    "both states (diff). auto is the changelog if the table has one, else the delta; two tags are compared.",
    _READ,
    choices=("auto", "delta", "changelog", "diff"),
)
STREAM_OVERWRITE: Final = Option(
    "streaming-read-overwrite", bool, False, "Whether a stream reads what an overwrite brought, too.", _READ
)
CONSUMER_ID: Final = Option(
    "consumer-id",
    str,
    None,
    "Name under which a stream of the files records its position; expiry keeps the snapshots that it still needs.",
    _READ,
    fault=file_name_fault,
)
CONSUMER_IGNORE_PROGRESS: Final = Option(
    "consumer.ignore-progress", bool, False, "Do not begin where this consumer has stopped.", _READ
)

SCAN_OPTIONS: Final = Declared(
    [
        SCAN_MODE,
        SCAN_SNAPSHOT,
        SCAN_TIMESTAMP,
        SCAN_TIMESTAMP_MILLIS,
        SCAN_TAG,
        SCAN_WATERMARK,
        SCAN_VERSION,
        INCREMENTAL_BETWEEN,
        INCREMENTAL_BETWEEN_TIMESTAMP,
        INCREMENTAL_MODE,
        STREAM_OVERWRITE,
        CONSUMER_ID,
        CONSUMER_IGNORE_PROGRESS,
    ]
)
"""Every option of this page."""
