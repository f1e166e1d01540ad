"""Every metric of lakelog, declared once; docs/reference/metrics.md is made from here."""

from __future__ import annotations

from typing import Final

from lakelog.options.metric import COUNTER, DURATIONS, GAUGE, HISTOGRAM, Metric

# what happens: counted in the process in which it happens

ROWS_WRITTEN: Final = Metric(
    "rows_written",
    COUNTER,
    "Rows that commits added to a store (`log` or `files`). Log rows count when their epoch is decided. File rows "
    "count with their snapshot and include rows that row changes rewrite.",
    ("table", "store"),
)
BYTES_WRITTEN: Final = Metric(
    "bytes_written",
    COUNTER,
    "Bytes of these rows: keys and values in the log, new data files in the file store.",
    ("table", "store"),
    "bytes",
)
ROWS_TAILED: Final = Metric("rows_tailed", COUNTER, "Rows returned by tails of the log.")
ROWS_MIRRORED: Final = Metric("rows_mirrored", COUNTER, "Rows committed to the Kafka topics of mirrors.")
BACKUP_BYTES: Final = Metric("backup", COUNTER, "Bytes that backups of a table have copied.", unit="bytes")
SNAPSHOTS_REPLICATED: Final = Metric(
    "snapshots_replicated", COUNTER, "Snapshots of its source that a replica has copied."
)
ROWS_INGESTED: Final = Metric(
    "rows_ingested", COUNTER, "Changes of a source database that `lakelog ingest` committed, and rows of its snapshots."
)
INGEST_LAG: Final = Metric(
    "ingest_lag",
    HISTOGRAM,
    "Time between the commit of a transaction in the source database and its commit here, one value per commit.",
    ("table",),
    "seconds",
    DURATIONS,
)
VIEW_ROWS: Final = Metric("view_rows", COUNTER, "Rows of a materialized view that its refreshes changed.")
VIEW_DURATION: Final = Metric(
    "view_refresh_duration",
    HISTOGRAM,
    "Duration of the refreshes of a materialized view that had something to do.",
    ("table",),
    "seconds",
    DURATIONS,
)
VIEW_FAILURES: Final = Metric(
    "view_failures", COUNTER, "Failed refreshes of a materialized view, by error class.", ("table", "error")
)
COMMITS: Final = Metric(
    "commits",
    COUNTER,
    "Successful commits to the files, by kind (`APPEND`, `COMPACT`, `OVERWRITE`, `ANALYZE`).",
    ("table", "kind"),
)
COMMIT_DURATION: Final = Metric(
    "commit_duration",
    HISTOGRAM,
    "Duration of these commits, including retries.",
    ("table", "kind"),
    "seconds",
    DURATIONS,
)
COMMIT_CONFLICTS: Final = Metric(
    "commit_conflicts", COUNTER, "Commit attempts that lost their snapshot id to another commit."
)
COMMIT_FAILURES: Final = Metric("commit_failures", COUNTER, "Failed commits, by error class.", ("table", "error"))
ICEBERG_FAILURES: Final = Metric(
    "iceberg_failures",
    COUNTER,
    "Failed exports of Iceberg metadata after a commit, by error class. The next commit tries again.",
    ("table", "error"),
)
EPOCHS_DECIDED: Final = Metric("epochs_decided", COUNTER, "Epochs (micro-batches) decided by this process.")
SEALS: Final = Metric("seals", COUNTER, "Snapshots of decided epochs.")
SEAL_DURATION: Final = Metric(
    "seal_duration",
    HISTOGRAM,
    "Duration of these seals, including the file writes.",
    ("table",),
    "seconds",
    DURATIONS,
)
COMPENSATIONS: Final = Metric(
    "compensations", COUNTER, "Corrections: records appended to the log to take redundant rows of failed attempts back."
)
COMPACTIONS: Final = Metric("compactions", COUNTER, "Compaction runs that changed files.")
COMPACTION_DURATION: Final = Metric(
    "compaction_duration", HISTOGRAM, "Duration of these runs.", ("table",), "seconds", DURATIONS
)
COMPACTED_FILES: Final = Metric("compacted_files", COUNTER, "Files replaced by compactions.")
COMPACTED_BYTES: Final = Metric(
    "compacted_bytes", COUNTER, "Bytes of the files replaced by compactions.", ("table",), "bytes"
)
COMPACTION_CONFLICTS: Final = Metric(
    "compaction_conflicts", COUNTER, "Buckets whose compaction was discarded after a conflict with another commit."
)
SNAPSHOTS_EXPIRED: Final = Metric("snapshots_expired", COUNTER, "Snapshots removed by expiry.")
PARTITIONS_EXPIRED: Final = Metric("partitions_expired", COUNTER, "Partitions dropped by expiry.")
ORPHANS_REMOVED: Final = Metric("orphans_removed", COUNTER, "Unreferenced files removed by orphan cleaning.")
BAD_RECORDS: Final = Metric("bad_records", COUNTER, "Unreadable log records that were skipped.", ("table",))
ROWS_REJECTED: Final = Metric(
    "rows_rejected",
    COUNTER,
    "Rows that commits left out with `on-bad-record` = `skip` or `keep`. They count when their epoch is decided.",
)
ROWS_IN_DOUBT: Final = Metric(
    "rows_in_doubt", COUNTER, "Rows that were written and violate a constraint with ON VIOLATION WARN.", ("table",)
)
LOG_ERRORS: Final = Metric(
    "log_errors",
    COUNTER,
    "Failed log appends and reads, by error class.",
    ("table", "operation", "error"),
)

# what is: read from the table when somebody asks

CATALOG_UP: Final = Metric("catalog_up", GAUGE, "1 if the tables of the catalog can be listed, else 0.", ("catalog",))
WAREHOUSE_FREE: Final = Metric(
    "warehouse_free",
    GAUGE,
    "Free space of the disk of the catalog's tables. Absent if the storage reports no limit.",
    ("catalog",),
    "bytes",
)
TABLE_UP: Final = Metric("table_up", GAUGE, "1 if the statistics of the table can be read, else 0.")
LOG_UP: Final = Metric("log_up", GAUGE, "1 if the log of the table responds, else 0. Absent without a log.")
INSPECTION_DURATION: Final = Metric(
    "look_duration", GAUGE, "Duration of the latest read of the table's statistics.", ("table",), "seconds"
)
HEALTH: Final = Metric(
    "health_score",
    GAUGE,
    "Health score of the table, 0 to 100, as in `lakelog health`; at most 20 with a finding that is no warning.",
)
FINDINGS: Final = Metric("finding", GAUGE, "1 for each kind of finding on the table.", ("table", "kind"))
NEEDS: Final = Metric(
    "need_urgency", GAUGE, "Urgency of each kind of pending maintenance, 1 to 100.", ("table", "kind")
)
WAITS: Final = Metric("waits", GAUGE, "Number of blocked operations. `lakelog health` lists them with the reasons.")
NEWEST_SNAPSHOT: Final = Metric("newest_snapshot", GAUGE, "Id of the newest snapshot. It increases with each commit.")
SNAPSHOTS: Final = Metric("snapshots", GAUGE, "Snapshots of the table.")
EXPIRABLE: Final = Metric("expirable_snapshots", GAUGE, "Snapshots that an expiry would remove now.")
FILES: Final = Metric("files", GAUGE, "Data files of the newest snapshot.")
FILE_BYTES: Final = Metric("file_bytes", GAUGE, "Bytes of these files.", ("table",), "bytes")
FILE_ROWS: Final = Metric("file_rows", GAUGE, "Rows in these files. Rows of one key in several files count separately.")
SMALL_FILES: Final = Metric("small_files", GAUGE, "Small data files of the newest snapshot.")
LEVEL0_FILES: Final = Metric(
    "level0_files", GAUGE, "Data files of the newest snapshot that no compaction has processed."
)
MOST_RUNS: Final = Metric("most_sorted_runs", GAUGE, "Sorted runs of the bucket with the most.")
BACKLOG_FILES: Final = Metric("compaction_backlog_files", GAUGE, "Files that a compaction would process now.")
BACKLOG_BYTES: Final = Metric(
    "compaction_backlog_bytes", GAUGE, "Bytes of the files that a compaction would process now.", ("table",), "bytes"
)
FRESHNESS: Final = Metric(
    "freshness", GAUGE, "Age of the newest row in a store (`log` or `files`).", ("table", "store"), "seconds"
)
OLDEST_WAITING: Final = Metric(
    "oldest_waiting_row", GAUGE, "Age of the oldest log row that waits for the files. 0 without such rows.",
    ("table",), "seconds",
)  # fmt: skip
LOG_END: Final = Metric(
    "log_end_offset", GAUGE, "End offset of a log bucket: the offset after its last record.", ("table", "bucket")
)
LOG_APPLIED: Final = Metric(
    "log_applied_offset", GAUGE, "Offset up to which the newest snapshot includes a log bucket.", ("table", "bucket")
)
LOG_LAG: Final = Metric("log_lag", GAUGE, "Rows of a log bucket that wait for the files.", ("table", "bucket"))
LOG_ONLY: Final = Metric(
    "log_only_rows",
    GAUGE,
    "Rows of a log bucket that no file will have (`emit.mode` = `log`). They expire with the log.",
    ("table", "bucket"),
)
READER_LAG: Final = Metric(
    "reader_lag", GAUGE, "Rows of the log that a reader with a `consumer-id` has not read.", ("table", "reader")
)
OPEN_EPOCHS: Final = Metric("open_epochs", GAUGE, "Epochs of writers that no snapshot includes.")
REJECTED: Final = Metric("rejected", GAUGE, "Rows in `t$rejected` that are neither replayed nor expired.")
INGEST_UNREAD: Final = Metric(
    "ingest_unread",
    GAUGE,
    "WAL of the source database that `lakelog ingest` has not committed yet, as of its last report.",
    ("table",),
    "bytes",
)
INGEST_HELD: Final = Metric(
    "ingest_held",
    GAUGE,
    "WAL that the source database keeps for the slot of `lakelog ingest`, as of its last report.",
    ("table",),
    "bytes",
)
INGEST_REPORT_AGE: Final = Metric(
    "ingest_report_age",
    GAUGE,
    "Age of the last report of `lakelog ingest`. It reports about each half minute.",
    ("table",),
    "seconds",
)
REPLICA_LAG: Final = Metric(
    "replica_lag",
    GAUGE,
    "Age of the newest state of its source that a replica may lack: what a loss of the source loses at most.",
    unit="seconds",
)
VIEW_LAG: Final = Metric(
    "view_lag",
    GAUGE,
    "Age of the oldest commit of a source that the materialized view lacks. 0 if it has all.",
    ("table", "source"),
    "seconds",
)
VIEW_BEHIND: Final = Metric(
    "view_commits_behind",
    GAUGE,
    "Commits of a source that the materialized view lacks, with decided epochs that have no snapshot.",
    ("table", "source"),
)
OLDEST_OPEN: Final = Metric(
    "oldest_open_epoch", GAUGE, "Age of the oldest of these epochs. 0 without one.", ("table",), "seconds"
)

METRICS: Final = {metric.name: metric for metric in list(vars().values()) if isinstance(metric, Metric)}
"""Every metric by its name, in the order of this file."""
