"""Options of reads that choose a point in time or a range of changes, with the keys of Apache Paimon (sheet 13)."""

from __future__ import annotations

from typing import Final

from lakelog.options.names import file_name_fault
from lakelog.options.option import Declared, Option, options_in

_READ: Final = ("table", "read")

SCAN_MODE: Final = Option(
    "scan.mode",
    str,
    "default",
    "Start position of a file read. default follows from the other scan options; a stream without them uses "
    "latest-full: the newest snapshot in full, then its changes. latest, earliest, from-snapshot and from-timestamp "
    "start with changes. from-snapshot-full starts with that full snapshot, compacted-full with the newest "
    "compaction.",
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
SCAN_SNAPSHOT: Final = Option(
    "scan.snapshot-id",
    int,
    None,
    "Snapshot to read. A stream starts with it.",
    _READ,
    aliases=("start-snapshot-id",),
)
SCAN_TIMESTAMP: Final = Option(
    "scan.timestamp",
    str,
    None,
    "Time of the read: '2024-01-31 12:00:00' in the time zone of the session (SQL, Spark; of an option as of "
    "connect) or of the machine, or with an offset. Reads the newest snapshot at or before this time.",
    _READ,
)
SCAN_TIMESTAMP_MILLIS: Final = Option(
    "scan.timestamp-millis",
    int,
    None,
    "Time of the read in ms since 1970. Reads the newest snapshot at or before this time.",
    _READ,
)
SCAN_TAG: Final = Option("scan.tag-name", str, None, "Tag whose snapshot is read.", _READ)
SCAN_WATERMARK: Final = Option(
    "scan.watermark",
    int,
    None,
    "Minimum watermark in ms. Reads the first snapshot with this watermark or a later one.",
    _READ,
)
SCAN_VERSION: Final = Option(
    "scan.version", str, None, "Version to read, as in VERSION AS OF: a tag, 'watermark-<ms>' or a snapshot id.", _READ
)
READ_CUT: Final = Option(
    "read.cut",
    str,
    None,
    "Cut to read: the state at a moment that several tables share (RFC 24). newest is the newest cut that all tables "
    "of a statement with this value have. Else the name of a cut. Tables that one lakelog ingest fills have cuts.",
    ("read",),
)
INCREMENTAL_BETWEEN: Final = Option(
    "incremental-between",
    str,
    None,
    "Range of changes to read: two snapshots 'a,b' (a excluded, b included) or two tags.",
    _READ,
)
INCREMENTAL_BETWEEN_TIMESTAMP: Final = Option(
    "incremental-between-timestamp",
    str,
    None,
    "Time range of changes to read: 'a,b' in ms since 1970, or as text like scan.timestamp.",
    _READ,
)
INCREMENTAL_TO_AUTO_TAG: Final = Option(
    "incremental-to-auto-tag",
    str,
    None,
    "A tag: the changes to it from the tag before it, or nothing without an earlier tag.",
    _READ,
)
INCREMENTAL_MODE: Final = Option(
    "incremental-between-scan-mode",
    str,
    "auto",
    "Source of the changes between two snapshots: rows of new files (delta), changelog files (changelog), or a "
    "comparison of both states (diff). auto uses the changelog if the table has one, else the delta; it compares "
    "two tags.",
    _READ,
    choices=("auto", "delta", "changelog", "diff"),
)
STREAM_OVERWRITE: Final = Option(
    "streaming-read-overwrite", bool, False, "Whether a stream also reads the rows that an overwrite added.", _READ
)
CONSUMER_ID: Final = Option(
    "consumer-id",
    str,
    None,
    "Name under which a stream or a tail records its position. Expiry keeps the snapshots that it still needs, and "
    "without log-store.retention the rows of an embedded log or a log in files.",
    _READ,
    fault=file_name_fault,
)
CONSUMER_IGNORE_PROGRESS: Final = Option(
    "consumer.ignore-progress", bool, False, "Whether to ignore the recorded position of this consumer.", _READ
)
SCAN_METADATA_COLUMNS: Final = Option(
    "scan.metadata-columns",
    str,
    None,
    "Metadata columns that a batch read adds, as comma-separated names: __paimon_file_path, __paimon_row_index, "
    "__paimon_partition, __paimon_bucket, _metadata. SQL adds those that a query names.",
    ("read",),
)

FILE_SCAN_OPTIONS: Final = (
    SCAN_MODE, SCAN_SNAPSHOT, SCAN_TIMESTAMP, SCAN_TIMESTAMP_MILLIS, SCAN_TAG, SCAN_WATERMARK, SCAN_VERSION, READ_CUT,
    INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_TIMESTAMP, INCREMENTAL_TO_AUTO_TAG, INCREMENTAL_MODE, STREAM_OVERWRITE,
    SCAN_METADATA_COLUMNS,
)  # fmt: skip
"""Options that choose snapshots, or what is read of their files; the log has no answer to them."""

SCAN_OPTIONS: Final = Declared(options_in(globals()))
"""Every option of this page."""
