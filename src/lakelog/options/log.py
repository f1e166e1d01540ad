"""Options of the log store, and of how a write and a read use the two stores."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lakelog.errors import InvalidOption
from lakelog.options.catalog import CATALOG_OPTIONS
from lakelog.options.option import Declared, Option
from lakelog.options.secrets import HIDDEN, looks_secret, without_password
from lakelog.options.storage import is_storage_secret

PROPERTIES_PREFIX: Final = "properties."
"""Options with this prefix go to the log's client without it; they may hold secrets and are never printed."""

LOG_ENABLED: Final = Option(
    "log-store.enabled",
    bool,
    False,
    "Whether the table has a log store.",
    aliases=("log-store.enable",),
    immutable=True,
)
LOG_TYPE: Final = Option(
    "log-store.type",
    str,
    None,
    "Log system; by default pulsar for an address like pulsar://…, kafka for any other one, embedded without one.",
    choices=("embedded", "kafka", "pulsar"),
    aliases=("log.system",),
    immutable=True,
)
LOG_ADDRESS: Final = Option(
    "log-store.address",
    str,
    None,
    "Bootstrap servers of Kafka; service URL of Pulsar (pulsar://host:6650); file path of an embedded log (by default "
    "inside the table's directory).",
    aliases=("kafka.bootstrap.servers",),
)
LOG_TOPIC: Final = Option(
    "log-store.topic",
    str,
    None,
    "Topic of the log; made with the table. By default a name made from the table's and a random part.",
    aliases=("kafka.topic",),
    immutable=True,
)
DATA_FORMAT: Final = Option(
    "log-store.data-format",
    str,
    "debezium-json",
    "Format of the log's values: debezium-json, one change a record, for any consumer; or arrow, many a record, for "
    "speed.",
    choices=("debezium-json", "arrow"),
    aliases=("log.format",),
    immutable=True,
)
LOG_RETENTION: Final = Option(
    "log-store.retention",
    timedelta,
    None,
    "How long the log keeps rows (the files keep them for ever); by default the log system's own retention.",
    aliases=("log.retention",),
)
DROP_WITH_TABLE: Final = Option(
    "log-store.drop-with-table", bool, False, "Whether DROP TABLE deletes the topic, too. An embedded log always goes."
)
CONSISTENCY_GUARANTEE: Final = Option(
    "log-store.consistency-guarantee.enabled",
    bool,
    True,
    "Whether a reader of the log emits the corrections that take redundant rows back after a failure. "
    "Without them duplicates stay, for sinks that cannot delete.",
    scope=("table", "read"),
    aliases=("log-store.consistency-guarantee.enable",),
)
LOG_CONSISTENCY: Final = Option(
    "log.consistency",
    str,
    "eventual",
    "When a read of the log shows rows: at once, and redundant ones are taken back after a failure (eventual); or once "
    "their epoch is in a snapshot, and nothing is ever taken back (transactional).",
    scope=("table", "read"),
    choices=("eventual", "transactional"),
    aliases=("table-storage.log.consistency",),
)
CHANGELOG_MODE: Final = Option(
    "log.changelog-mode",
    str,
    "auto",
    "What the log holds: all (every change with its before-image) or upsert (the newest row of a key); "
    "auto is upsert with a primary key, all without.",
    choices=("auto", "all", "upsert"),
    aliases=("table-storage.log.changelog-mode",),
    immutable=True,
)
CHANGELOG_MODES: Final = Option(
    "log.consumer.changelog.modes",
    str,
    "all-kinds",
    "Row kinds that a read of the log emits: all of them, or inserts only.",
    scope=("table", "read"),
    choices=("all-kinds", "append-only"),
)
RETRACTIONS: Final = Option(
    "log.consumer.retractions",
    str,
    "drop",
    "What a read with log.consumer.changelog.modes = append-only does with a change that is no insert: leave it out "
    "(drop), or fail (error).",
    scope=("table", "read"),
    choices=("drop", "error"),
)
NORMALIZE: Final = Option(
    "log.consumer.normalize",
    bool,
    False,
    "Whether a read of an upsert log gives whole changes (+I, -U and +U, -D) and drops those that change nothing, from "
    "a state on disk of all keys that it has given. A log of mode all has whole changes already.",
    scope=("table", "read"),
)
EMIT_MODE: Final = Option(
    "emit.mode",
    str,
    "auto",
    "Stores that a write fills; auto is both when the log is on.",
    scope=("table", "write"),
    choices=("auto", "file", "log", "file,log"),
    aliases=("arctic.emit.mode", "mixed-format.emit.mode"),
)
WATERMARK_GAP: Final = Option(
    "emit.auto-write-to-logstore.watermark-gap",
    timedelta,
    None,
    "With emit.mode = auto: rows go to the files alone until the watermark of a writer is at most so far behind the "
    "clock, then to both stores, for good. Needs watermark.column.",
    scope=("table", "write"),
    aliases=(
        "arctic.emit.auto-write-to-logstore.watermark-gap",
        "mixed-format.emit.auto-write-to-logstore.watermark-gap",
    ),
)
WATERMARK_COLUMN: Final = Option(
    "watermark.column",
    str,
    None,
    "Column of the event time (TIMESTAMP, DATE, or BIGINT in ms since 1970): a write keeps its watermark in the "
    "snapshot, where scan.watermark finds it.",
    scope=("table", "write"),
)
WATERMARK_DELAY: Final = Option(
    "watermark.delay",
    timedelta,
    timedelta(0),
    "How late rows may be: the watermark is so far behind the newest event time.",
    scope=("table", "write"),
)
CHANGE_TRACKING: Final = Option(
    "change-tracking",
    bool,
    True,
    "Whether writes tell readers what they change: in the log, and in changelog files. false is for tables, or for "
    "batch writes, whose changes nobody follows.",
    scope=("table", "write"),
)
READ_MODE: Final = Option(
    "read.mode",
    str,
    "file",
    "Store that a read uses: file (batch), log (a stream), or union (batch: the files and what only the log has yet).",
    scope=("table", "read"),
    choices=("file", "log", "union"),
    aliases=("arctic.read.mode", "mixed-format.read.mode", "streaming-read-mode"),
)
STARTUP_MODE: Final = Option(
    "scan.startup.mode",
    str,
    "latest",
    "Where a new reader of the log begins; latest-full reads the newest snapshot whole, then the log from its offsets.",
    scope=("table", "read"),
    choices=("latest-full", "latest", "earliest", "timestamp", "specific-offsets"),
)
EXPIRED_OFFSETS: Final = Option(
    "scan.expired-offsets",
    str,
    "error",
    "What a read does whose records the log no longer holds: fail (error), go on with what it holds, without the rows "
    "between (earliest), or begin anew with the newest snapshot whole (latest-full).",
    scope=("table", "read"),
    choices=("error", "earliest", "latest-full"),
)
ON_BAD_RECORD: Final = Option(
    "scan.on-bad-record",
    str,
    "error",
    "Effect of a log record that cannot be read: the read fails and names the record (error), or goes on without it "
    "and counts it (skip).",
    scope=("table", "read"),
    choices=("error", "skip"),
)
STARTUP_TIMESTAMP: Final = Option(
    "scan.startup.timestamp-millis",
    int,
    None,
    "Begin at records appended at or after this time (ms since 1970), with scan.startup.mode = timestamp.",
    scope=("table", "read"),
)
STARTUP_OFFSETS: Final = Option(
    "scan.startup.specific-offsets",
    str,
    None,
    "Begin at these offsets, with scan.startup.mode = specific-offsets: "
    "'partition:0,offset:42;partition:1,offset:300'.",
    scope=("table", "read"),
)
WRITER_TIMEOUT: Final = Option(
    "log.writer-timeout",
    timedelta,
    timedelta(seconds=20),
    "The lease of a writer of the log: one that has not renewed it for this long counts as dead. Its uncommitted rows "
    "are left out of union reads and taken back by the next writer, by the optimizer or when a lake is closed.",
    scope=("table", "read"),
)
MAX_ROWS_PER_TRIGGER: Final = Option(
    "read.max-rows-per-trigger", int, 1_000_000, "Most log records of one micro-batch.", scope=("table", "read")
)
SCAN_FILTER: Final = Option(
    "scan.filter",
    str,
    None,
    "Rows to read, as a condition in SQL: partitions, buckets and files that cannot have such rows are skipped.",
    scope=("read",),
)
SCAN_DATA_FILES: Final = Option(
    "scan.data-files",
    str,
    None,
    "Read only these data files of a table without a primary key: names, separated by commas. It is an error when one "
    "of them is no part of the table any more.",
    scope=("read",),
)
CONCURRENT_WRITERS: Final = Option(
    "write.concurrent-writers",
    bool,
    False,
    "Whether several streaming queries may write a table with a primary key at a time: right only if no key is "
    "written by two of them. Without a primary key they always may.",
    scope=("table", "write"),
)
CHECK_REPLAYS: Final = Option(
    "write.check-replays",
    bool,
    True,
    "Whether a streaming query fails if it repeats a committed micro-batch with another number of rows. Set it to "
    "false for a query whose rows differ each time that a micro-batch runs; the rows of the first commit stay.",
    scope=("table", "write"),
)
COMMIT_INTERVAL: Final = Option(
    "commit.interval",
    timedelta,
    timedelta(seconds=1),
    "How often a streaming write seals its finished micro-batches into a snapshot. lakelog's own batch reads "
    "see them at once.",
    scope=("table", "write"),
)

LOG_OPTIONS: Final = Declared(
    [
        LOG_ENABLED,
        LOG_TYPE,
        LOG_ADDRESS,
        LOG_TOPIC,
        DATA_FORMAT,
        LOG_RETENTION,
        DROP_WITH_TABLE,
        CONSISTENCY_GUARANTEE,
        LOG_CONSISTENCY,
        CHANGELOG_MODE,
        CHANGELOG_MODES,
        RETRACTIONS,
        NORMALIZE,
        EMIT_MODE,
        WATERMARK_GAP,
        WATERMARK_COLUMN,
        WATERMARK_DELAY,
        CHANGE_TRACKING,
        READ_MODE,
        STARTUP_MODE,
        STARTUP_TIMESTAMP,
        STARTUP_OFFSETS,
        EXPIRED_OFFSETS,
        ON_BAD_RECORD,
        WRITER_TIMEOUT,
        MAX_ROWS_PER_TRIGGER,
        SCAN_FILTER,
        SCAN_DATA_FILES,
        CONCURRENT_WRITERS,
        CHECK_REPLAYS,
        COMMIT_INTERVAL,
    ],
    [PROPERTIES_PREFIX],
)


_OPEN_PROPERTIES: Final = (
    "security.protocol",
    "sasl.mechanism",
    "client.id",
    "compression.type",
    "acks",
    "pulsar.admin.adminUrl",
    "pulsar.client.authPluginClassName",
)


_SAYS_WHERE: Final = re.compile(
    r"(?i)server|broker|url|uri|address|protocol|endpoint|host|proxy|ssl|tls|plugin|class|jaas"
)


def says_where_log_is(key: str) -> bool:
    """Whether an option (canonical key) says who gets the secrets of a table, or how they travel."""
    if key in (LOG_TYPE.key, LOG_ADDRESS.key):
        return True
    return key.startswith(PROPERTIES_PREFIX) and _SAYS_WHERE.search(key) is not None


def shown_value(key: str, value: str) -> str:
    """An option's value as DESCRIBE, SHOW CREATE TABLE and system tables print it.

    What goes to the client may be a secret; so may keys of the storage, which other engines let stand in a table, the
    URL of a catalog, which CREATE CATALOG has, and every option whose name sounds like it. A password inside a URL
    is hidden in any option.
    """
    name = key.removeprefix(PROPERTIES_PREFIX)
    hidden = (key.startswith(PROPERTIES_PREFIX) and name not in _OPEN_PROPERTIES) or is_storage_secret(key)
    hidden |= any(option.secret and key in (option.key, *option.aliases) for option in CATALOG_OPTIONS.options)
    return HIDDEN if hidden or looks_secret(key) else without_password(value)


def parse_specific_offsets(text: str) -> dict[int, int]:
    """Reads ``partition:0,offset:42;partition:1,offset:300`` as bucket → offset. Raises InvalidOption."""
    out: dict[int, int] = {}
    for part in text.strip().strip(";").split(";"):
        try:
            pairs = dict(pair.split(":") for pair in part.split(","))
            out[int(pairs["partition"])] = int(pairs["offset"])
        except (ValueError, KeyError):
            raise InvalidOption(
                f"option '{STARTUP_OFFSETS.key}' = '{text}': write 'partition:0,offset:42;partition:1,offset:300'"
            ) from None
    return out
