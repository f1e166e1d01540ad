"""Every metric of lakelog, declared once; docs/reference/metrics.md is made from here."""

from __future__ import annotations

from typing import Final

from lakelog.options.metric import COUNTER, DURATIONS, GAUGE, HISTOGRAM, Metric

# what happens: counted in the process in which it happens

ROWS_WRITTEN: Final = Metric(
    "rows_written",
    COUNTER,
    "Rows that commits have added to a store (`log` or `files`). Those of the log count when their epoch is decided; "
    "of the files, when their snapshot is made, also those that a change of rows writes again.",
    ("table", "store"),
)
BYTES_WRITTEN: Final = Metric(
    "bytes_written",
    COUNTER,
    "Bytes of these rows: of keys and values in the log, of new data files.",
    ("table", "store"),
    "bytes",
)
ROWS_TAILED: Final = Metric("rows_tailed", COUNTER, "Rows that tails of the log have handed out.")
COMMITS: Final = Metric(
    "commits",
    COUNTER,
    "Commits to the files that have made a snapshot, by its kind (`APPEND`, `COMPACT`, `OVERWRITE`, `ANALYZE`).",
    ("table", "kind"),
)
COMMIT_DURATION: Final = Metric(
    "commit_duration", HISTOGRAM, "How long these commits took, all rounds.", ("table", "kind"), "seconds", DURATIONS
)
COMMIT_CONFLICTS: Final = Metric(
    "commit_conflicts", COUNTER, "Rounds of commits that lost the number of their snapshot to another commit."
)
COMMIT_FAILURES: Final = Metric(
    "commit_failures", COUNTER, "Commits that have failed, by the class of the error.", ("table", "error")
)
EPOCHS_DECIDED: Final = Metric("epochs_decided", COUNTER, "Epochs (micro-batches) that this process has decided.")
SEALS: Final = Metric("seals", COUNTER, "Snapshots made of decided epochs.")
SEAL_DURATION: Final = Metric(
    "seal_duration",
    HISTOGRAM,
    "How long these seals took, with the writing of their files.",
    ("table",),
    "seconds",
    DURATIONS,
)
COMPENSATIONS: Final = Metric(
    "compensations", COUNTER, "Records appended to the log to take redundant rows of failed attempts back."
)
COMPACTIONS: Final = Metric("compactions", COUNTER, "Runs of a compaction that had something to do.")
COMPACTION_DURATION: Final = Metric(
    "compaction_duration", HISTOGRAM, "How long these runs took.", ("table",), "seconds", DURATIONS
)
COMPACTED_FILES: Final = Metric("compacted_files", COUNTER, "Files that compactions have replaced.")
COMPACTED_BYTES: Final = Metric(
    "compacted_bytes", COUNTER, "Bytes of the files that compactions have replaced.", ("table",), "bytes"
)
COMPACTION_CONFLICTS: Final = Metric(
    "compaction_conflicts", COUNTER, "Buckets whose compaction was thrown away because another commit was faster."
)
SNAPSHOTS_EXPIRED: Final = Metric("snapshots_expired", COUNTER, "Snapshots that expiry has removed.")
PARTITIONS_EXPIRED: Final = Metric("partitions_expired", COUNTER, "Partitions that expiry has dropped.")
ORPHANS_REMOVED: Final = Metric("orphans_removed", COUNTER, "Files that nothing named and orphan cleaning has removed.")
BAD_RECORDS: Final = Metric(
    "bad_records", COUNTER, "Records of the log that could not be read and were skipped.", ("table",)
)
LOG_ERRORS: Final = Metric(
    "log_errors",
    COUNTER,
    "Appends to the log and reads of it that have failed, by the class of the error.",
    ("table", "operation", "error"),
)

# what is: read from the table when somebody asks

CATALOG_UP: Final = Metric(
    "catalog_up", GAUGE, "1 when the tables of the catalog could be listed, 0 when not.", ("catalog",)
)
TABLE_UP: Final = Metric("table_up", GAUGE, "1 when the figures of the table could be read, 0 when not.")
LOG_UP: Final = Metric("log_up", GAUGE, "1 when the log of the table answers, 0 when not; none without a log.")
LOOK_DURATION: Final = Metric(
    "look_duration", GAUGE, "How long it took to read the figures of the table.", ("table",), "seconds"
)
HEALTH: Final = Metric(
    "health_score",
    GAUGE,
    "Health score of the table, 0 to 100, as `lakelog health` shows it; at most 20 with a finding.",
)
FINDINGS: Final = Metric(
    "finding", GAUGE, "1 for each kind of thing that is wrong with the table now.", ("table", "kind")
)
NEEDS: Final = Metric(
    "need_urgency", GAUGE, "How urgently the table needs a kind of care, 1 to 100.", ("table", "kind")
)
WAITS: Final = Metric("waits", GAUGE, "Number of blocked operations; `lakelog health` says which and why.")
NEWEST_SNAPSHOT: Final = Metric("newest_snapshot", GAUGE, "The id of the newest snapshot: it grows with each commit.")
SNAPSHOTS: Final = Metric("snapshots", GAUGE, "Snapshots that the table keeps.")
EXPIRABLE: Final = Metric("expirable_snapshots", GAUGE, "Those of them that an expiry would remove now.")
FILES: Final = Metric("files", GAUGE, "Data files of the newest snapshot.")
FILE_BYTES: Final = Metric("file_bytes", GAUGE, "Bytes of these files.", ("table",), "bytes")
FILE_ROWS: Final = Metric("file_rows", GAUGE, "Rows in these files; those of one key in several files all count.")
SMALL_FILES: Final = Metric("small_files", GAUGE, "Those of the files that are small.")
LEVEL0_FILES: Final = Metric("level0_files", GAUGE, "Those of the files that no compaction has touched.")
MOST_RUNS: Final = Metric("most_sorted_runs", GAUGE, "Sorted runs of the bucket that has the most.")
BACKLOG_FILES: Final = Metric("compaction_backlog_files", GAUGE, "Files that a compaction would take now.")
BACKLOG_BYTES: Final = Metric(
    "compaction_backlog_bytes", GAUGE, "Bytes of the files that a compaction would take now.", ("table",), "bytes"
)
FRESHNESS: Final = Metric(
    "freshness", GAUGE, "How long ago a store (`log` or `files`) got its newest row.", ("table", "store"), "seconds"
)
OLDEST_WAITING: Final = Metric(
    "oldest_waiting_row", GAUGE, "How long the oldest row of the log that the files do not have has waited, 0: none.",
    ("table",), "seconds",
)  # fmt: skip
LOG_END: Final = Metric(
    "log_end_offset", GAUGE, "The offset behind the last record of a bucket of the log.", ("table", "bucket")
)
LOG_APPLIED: Final = Metric(
    "log_applied_offset", GAUGE, "The offset up to which the newest snapshot has a bucket.", ("table", "bucket")
)
LOG_LAG: Final = Metric(
    "log_lag", GAUGE, "Records of a bucket of the log that the newest snapshot does not have.", ("table", "bucket")
)
READER_LAG: Final = Metric(
    "reader_lag", GAUGE, "Records of the log that a reader with a `consumer-id` has not read.", ("table", "reader")
)
OPEN_EPOCHS: Final = Metric("open_epochs", GAUGE, "Epochs of writers that are in no snapshot yet.")
OLDEST_OPEN: Final = Metric(
    "oldest_open_epoch", GAUGE, "How long the oldest of these epochs has been open, 0: none.", ("table",), "seconds"
)

METRICS: Final = {metric.name: metric for metric in list(vars().values()) if isinstance(metric, Metric)}
"""Every metric by its name, in the order of this file."""
