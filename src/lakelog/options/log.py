"""Options of the log store, and of how a write and a read use the two stores."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lakelog.errors import InvalidOption
from lakelog.options import adopted, debezium, log_partitions, schema_registry
from lakelog.options.catalog import CATALOG_OPTIONS
from lakelog.options.compatibility import KEY_PREFIXES, PROPERTIES_PREFIX, STARTUP_WORDS, TABLE_STORAGE
from lakelog.options.option import Declared, Option, options_in
from lakelog.options.parts import LOG_FORMATS, LOG_SYSTEMS
from lakelog.options.schema_registry import REGISTRY_URL
from lakelog.options.secrets import HIDDEN, is_known_reference, looks_secret, without_password
from lakelog.options.storage import is_storage_secret

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
    "Log system of the table. Default: pulsar for an address like pulsar://…, kafka for any other address, embedded "
    "without an address.",
    choices=LOG_SYSTEMS,
    aliases=("log.system",),
    immutable=True,
)
LOG_ADDRESS: Final = Option(
    "log-store.address",
    str,
    None,
    "Address of the log: bootstrap servers of Kafka, service URL of Pulsar (pulsar://host:6650), or file path of an "
    "embedded log. Default of an embedded log: a file in the table's directory.",
    aliases=("kafka.bootstrap.servers",),
)
LOG_TOPIC: Final = Option(
    "log-store.topic",
    str,
    None,
    "Topic of the log. CREATE TABLE creates it. Default: the table's name and a random suffix.",
    aliases=("kafka.topic",),
    immutable=True,
)
DATA_FORMAT: Final = Option(
    "log-store.data-format",
    str,
    "debezium-json",
    "Encoding of log values. debezium-json stores one change per record, for any consumer; avro also, with "
    "schemas in a registry (log-store.schema-registry.url); arrow stores many per record, for speed. plain-json, "
    "canal-json and maxwell-json are read, and only another system writes them. CREATE TABLE stores arrow if only "
    "lakelog can read the log (embedded, files).",
    choices=LOG_FORMATS,
    aliases=("log.format",),
    words={"json": "debezium-json", "debezium-avro-confluent": "avro"},
    immutable=True,
)
LOG_ADOPT: Final = Option(
    "log-store.adopt",
    bool,
    False,
    "Whether CREATE TABLE takes a topic that holds records of another producer, such as a Debezium connector. They are "
    "log-first rows. Needs one partition, so 'bucket' or 'log-store.partitions' = '1'. DROP TABLE leaves such a "
    "topic.",
    immutable=True,
)
LOG_RETENTION: Final = Option(
    "log-store.retention",
    timedelta,
    None,
    "Time for which the log keeps rows; the files keep them forever. In an embedded log or a log in files, writers "
    "remove older rows at most a quarter of this time, or an hour, late, and lakelog optimize does if none writes. "
    "Segments of a log in files are deleted 10 min after that. Each bucket keeps its newest batch. Default: the log "
    "system's own retention. That of these two logs is 7 d, and longer for rows that no snapshot has or that a reader "
    "with a consumer-id still needs.",
    aliases=("log.retention",),
)
DROP_WITH_TABLE: Final = Option(
    "log-store.drop-with-table",
    bool,
    False,
    "Whether DROP TABLE also deletes the topic. An embedded log is always deleted.",
)
CONSISTENCY_GUARANTEE: Final = Option(
    "log-store.consistency-guarantee.enabled",
    bool,
    True,
    "Whether a log reader emits the corrections that retract redundant rows after a failure. Use false for sinks "
    "that cannot delete; duplicates then remain.",
    scope=("table", "read"),
    aliases=("log-store.consistency-guarantee.enable",),
)
LOG_CONSISTENCY: Final = Option(
    "log.consistency",
    str,
    "eventual",
    "Visibility of log rows. eventual emits rows at once and retracts redundant ones after a failure. transactional "
    "emits rows once their epoch is in a snapshot and never retracts them.",
    scope=("table", "read"),
    choices=("eventual", "transactional"),
    aliases=("table-storage.log.consistency",),
)
INPUT: Final = "input"
CHANGES: Final = "changes"
LOG_CONTENT: Final = Option(
    "log.content",
    str,
    None,
    "Content of the log. input is the rows as they were written, at once; changes is the changes of the merged table "
    "from snapshot to snapshot, after each commit. Default: input if the newest row of a key replaces the older ones "
    "and no sequence.field is set, changes otherwise. CREATE TABLE stores it.",
    choices=(INPUT, CHANGES),
    immutable=True,
)
CHANGELOG_MODE: Final = Option(
    "log.changelog-mode",
    str,
    "auto",
    "Changes in the log: all (every change with its before-image) or upsert (the newest row of a key). auto is upsert "
    "with a primary key and log.content = input, all otherwise.",
    choices=("auto", "all", "upsert"),
    aliases=("table-storage.log.changelog-mode",),
    immutable=True,
)
CHANGELOG_MODES: Final = Option(
    "log.consumer.changelog.modes",
    str,
    "all-kinds",
    "Row kinds that a log read emits: all kinds, or inserts only.",
    scope=("table", "read"),
    choices=("all-kinds", "append-only"),
)
RETRACTIONS: Final = Option(
    "log.consumer.retractions",
    str,
    "drop",
    "Handling of non-insert changes when log.consumer.changelog.modes = append-only: skip them (drop) or fail (error).",
    scope=("table", "read"),
    choices=("drop", "error"),
)
NORMALIZE: Final = Option(
    "log.consumer.normalize",
    bool,
    False,
    "Whether a read of an upsert log emits whole changes (+I, -U and +U, -D) and drops changes without effect. The "
    "read keeps all emitted keys in a state on disk. A log of mode all already has whole changes.",
    scope=("table", "read"),
)
EMIT_MODE: Final = Option(
    "emit.mode",
    str,
    "auto",
    "Stores that a write fills. auto is both if the table has a log.",
    scope=("table", "write"),
    choices=("auto", "file", "log", "file,log"),
    aliases=("arctic.emit.mode", "mixed-format.emit.mode"),
)
WATERMARK_GAP: Final = Option(
    "emit.auto-write-to-logstore.watermark-gap",
    timedelta,
    None,
    "Maximum distance of a writer's watermark from the clock before it writes to the log, with emit.mode = auto. "
    "Until then it writes files only; afterwards it permanently writes both stores. Needs watermark.column.",
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
    "Event-time column: TIMESTAMP, DATE, or BIGINT in ms since 1970. Each write stores its watermark in the "
    "snapshot, where scan.watermark finds it.",
    scope=("table", "write"),
)
WATERMARK_DELAY: Final = Option(
    "watermark.delay",
    timedelta,
    timedelta(0),
    "Maximum lateness of rows. The watermark is the newest event time minus this delay.",
    scope=("table", "write"),
)
CHANGE_TRACKING: Final = Option(
    "change-tracking",
    bool,
    True,
    "Whether writes record their changes for readers, in the log and in changelog files. Use false for tables or "
    "batch writes without readers of changes.",
    scope=("table", "write"),
)
READ_MODE: Final = Option(
    "read.mode",
    str,
    "file",
    "Store that a read uses: file (batch), log (a stream; a batch with streaming = false), or union (batch: files plus "
    "the log records that are not in files yet).",
    scope=("table", "read"),
    choices=("file", "log", "union"),
    aliases=("arctic.read.mode", "mixed-format.read.mode", "streaming-read-mode"),
)
STREAMING: Final = Option(
    "streaming",
    bool,
    True,
    "Whether a query of the log (read.mode = log) is a stream. false reads the range from the start position to the "
    "end of the log as a batch, as spark.read does; without scan.startup.mode it starts with latest-full. A read of "
    "files is never a stream.",
    scope=("table", "read", "write"),
)
STARTUP_MODE: Final = Option(
    "scan.startup.mode",
    str,
    "latest",
    "Start position of a new log reader. latest-full reads the newest snapshot in full, then the log from the "
    "snapshot's offsets. group-offsets is accepted and means latest: a query has its position in its checkpoint.",
    scope=("table", "read"),
    choices=("latest-full", "latest", "earliest", "timestamp", "specific-offsets"),
    aliases=("log.scan",),
    words=STARTUP_WORDS,
)
EXPIRED_OFFSETS: Final = Option(
    "scan.expired-offsets",
    str,
    "error",
    "Action if the log has expired the records at a reader's offset. error fails; earliest skips the expired "
    "records; latest-full restarts from a full read of the newest snapshot.",
    scope=("table", "read"),
    choices=("error", "earliest", "latest-full"),
)
ON_BAD_RECORD: Final = Option(
    "scan.on-bad-record",
    str,
    "error",
    "Action on an unreadable log record. error fails and names the record; skip omits the record and counts it.",
    scope=("table", "read"),
    choices=("error", "skip"),
)
STARTUP_TIMESTAMP: Final = Option(
    "scan.startup.timestamp-millis",
    int,
    None,
    "Start time of the read in ms since 1970, with scan.startup.mode = timestamp. The read starts at records "
    "appended at or after this time.",
    scope=("table", "read"),
    aliases=("log.scan.timestamp-millis",),
)
STARTUP_OFFSETS: Final = Option(
    "scan.startup.specific-offsets",
    str,
    None,
    "Start offsets of the read, with scan.startup.mode = specific-offsets: "
    "'partition:0,offset:42;partition:1,offset:300'.",
    scope=("table", "read"),
)
WRITER_TIMEOUT: Final = Option(
    "log.writer-timeout",
    timedelta,
    timedelta(seconds=20),
    "Lease duration of a log writer. A writer that does not renew its lease for this long counts as dead. Union "
    "reads leave out its uncommitted rows. The next writer, the optimizer or closing a lake retracts them.",
    scope=("table", "read"),
)
MAX_ROWS_PER_TRIGGER: Final = Option(
    "read.max-rows-per-trigger",
    int,
    1_000_000,
    "Maximum number of log rows per micro-batch; at least one record of each bucket is read.",
    scope=("table", "read"),
)
SCAN_FILTER: Final = Option(
    "scan.filter",
    str,
    None,
    "SQL condition on the rows to read. Partitions, buckets and files that cannot match are skipped.",
    scope=("read",),
)
SCAN_DATA_FILES: Final = Option(
    "scan.data-files",
    str,
    None,
    "Data files to read, as comma-separated names, in a table without a primary key. The read fails if a file is no "
    "longer part of the table.",
    scope=("read",),
)
CONCURRENT_WRITERS: Final = Option(
    "write.concurrent-writers",
    bool,
    False,
    "Whether several streaming queries may write a table with a primary key at the same time. Requires that no two "
    "of them write the same key. Without a primary key they always may.",
    scope=("table", "write"),
)
CHECK_REPLAYS: Final = Option(
    "write.check-replays",
    bool,
    True,
    "Whether a streaming query fails if it repeats a committed micro-batch with a different number of rows. Use "
    "false for a nondeterministic query; the rows of the first commit remain.",
    scope=("table", "write"),
)
COMMIT_INTERVAL: Final = Option(
    "commit.interval",
    timedelta,
    timedelta(seconds=1),
    "Minimum interval between the snapshots of a streaming write, or of an open writer of a table with a log. Each "
    "snapshot seals the finished commits. lakelog's own batch reads see these at once. 0 makes each commit of a writer "
    "a snapshot.",
    scope=("table", "write"),
)

PLAIN_SECRETS: Final = Option(
    "log-store.allow-plaintext",
    bool,
    False,
    "Whether an option of the log's client may be a password in plain text, which all who read the schema's file see. "
    "Otherwise it is a reference such as secret:env:NAME.",
)

LOG_OPTIONS: Final = Declared(
    [
        *options_in(globals()),
        *options_in(vars(log_partitions)),
        *options_in(vars(debezium)),
        *options_in(vars(adopted)),
        *options_in(vars(schema_registry)),
    ],
    [PROPERTIES_PREFIX],
    KEY_PREFIXES,
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


_SERVER_PROPERTY: Final = re.compile(
    r"(?i)server|broker|url|uri|address|protocol|endpoint|host|dns|proxy|ssl|tls|plugin|class|jaas|sasl|mechanism|auth"
)


def names_log_server(key: str) -> bool:
    """True if an option (canonical key) decides which server gets the secrets of a table, or how they are sent."""
    if key in (LOG_TYPE.key, LOG_ADDRESS.key, REGISTRY_URL.key):
        return True
    return key.startswith(PROPERTIES_PREFIX) and _SERVER_PROPERTY.search(key) is not None


def may_be_secret(key: str) -> bool:
    """True if an option of a table may be a secret, or a reference to one.

    They are: properties of the log's client, keys of the storage (other engines store them in tables), the URL of a
    catalog, and options with the name of a secret.
    """
    key = LOG_OPTIONS.canonical_key(key.removeprefix(TABLE_STORAGE))
    name = key.removeprefix(PROPERTIES_PREFIX)
    hidden = (key.startswith(PROPERTIES_PREFIX) and name not in _OPEN_PROPERTIES) or is_storage_secret(key)
    hidden |= any(option.secret and key in (option.key, *option.aliases) for option in CATALOG_OPTIONS.options)
    return hidden or looks_secret(key)


def shown_value(key: str, value: str) -> str:
    """An option's value as DESCRIBE, SHOW CREATE TABLE and system tables print it.

    Hides what may be a secret, and passwords in URLs in any option. Shows the known form of a reference.
    """
    if may_be_secret(key):
        return value if is_known_reference(value) else HIDDEN
    return without_password(value)


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
