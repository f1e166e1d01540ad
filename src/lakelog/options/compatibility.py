"""Words of Arctic, Amoro, Flink Table Store and Paimon: other spellings, and options without effect with the reason."""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.option import Declared, Option, Options

PROPERTIES_PREFIX: Final = "properties."
"""Options with this prefix go to the log's client without it; they may hold secrets and are never printed."""

TABLE_STORAGE: Final = "table-storage."
KEY_PREFIXES: Final = {TABLE_STORAGE: "", "log.kafka.": "kafka.", "kafka.": PROPERTIES_PREFIX}
"""Other beginnings of keys: those of Flink Table Store, and of the proposal for it."""

STARTUP_WORDS: Final = {
    "full": "latest-full",
    "group-offsets": "latest",  # a query has its position in its checkpoint, not in a group of the log
    "latest-offset": "latest",
    "earliest-offset": "earliest",
    "from-timestamp": "timestamp",
}
"""Other words for the start of a read of the log: those of Table Store and of Flink's Kafka connector."""

_ANY: Final = ("table", "read", "write")


def _without_effect(key: str, why: str, *, choices: tuple[str, ...] = (), aliases: tuple[str, ...] = ()) -> Option[str]:
    return Option(key, str, None, f"No effect: {why}", _ANY, choices=choices, aliases=aliases)


INERT: Final[tuple[Option[Any], ...]] = (
    _without_effect(
        "log-store.data-version", "every record of a log carries the version of its layout.", choices=("v1",)
    ),
    _without_effect("log.version", "every record of a log carries the version of its layout.", choices=("v1",)),
    _without_effect("log-store.catch-up", "the table stores by itself whether its writers have caught up."),
    _without_effect("log-store.catch-up-timestamp", "the table stores by itself when its writers have caught up."),
    _without_effect("log-store.kafka.compatible.enabled", "the client detects the features of the servers."),
    _without_effect("log.key.format", "keys are JSON in a debezium-json log.", choices=("json",)),
    _without_effect(
        "log.ignore-delete", "a log has all changes; ignore-delete drops deletes in both stores.", choices=("false",)
    ),
    _without_effect(
        "scan.remove-normalize",
        "a read of an upsert log has no normalizer without log.consumer.normalize.",
        aliases=("log.scan.remove-normalize",),
    ),
    _without_effect("log.system.partitions", "'log-store.partitions' sets the partitions of a log."),
    _without_effect("log.system.replication", "the servers of the log decide how often they replicate a topic."),
    _without_effect("log.system.auto-register", "CREATE TABLE creates the topic, DROP TABLE PURGE deletes it."),
    _without_effect("log.system.auto-register-timeout", "CREATE TABLE waits for the topic."),
    _without_effect("commit.user-prefix", "a commit user is the identity of its writer, also in the log."),
    _without_effect("monitor-interval", "the trigger of the query decides how often new files are read."),
    _without_effect("source.parallelism", "a read has one task per partition of the log, or per split of files."),
    _without_effect("sink.parallelism", "a write has as many tasks as its query, unless write.shuffle changes them."),
    _without_effect("write.distribution.hash-mode", "rows are shuffled by partition and bucket."),
    _without_effect(
        "dim-table.enabled",
        "a lookup join waits for the rows that the table has when it starts.",
        aliases=("dim-table.enable",),
    ),
    _without_effect("lookup.cache.max-rows", "lookup.cache-max-memory-size limits the memory of the index."),
    _without_effect(
        "lookup.cache.ttl-after-write", "the index keeps the newest row of each key, without an age limit."
    ),
    _without_effect("rocksdb.auto-compactions", "the index of a lookup join does not use RocksDB."),
    _without_effect("rocksdb.writing-threads", "the index of a lookup join does not use RocksDB."),
    _without_effect("rocksdb.block-cache.capacity", "the index of a lookup join does not use RocksDB."),
    _without_effect("rocksdb.block-cache.numShardBits", "the index of a lookup join does not use RocksDB."),
    _without_effect("source.split.target-size", "a split combines adjacent files of a bucket up to 128 MiB."),
    _without_effect("source.split.open-file-cost", "a split combines adjacent files of a bucket up to 128 MiB."),
    _without_effect("dynamic-bucket.assigner-parallelism", "the driver assigns keys to dynamic buckets."),
    _without_effect(
        "end-input.check-partition-expire", "each write checks for old partitions, at most once per interval."
    ),
    _without_effect(
        "tag.automatic-creation", "tags are created by SQL, Python and the command line.", choices=("none",)
    ),
)

DEFAULTS: Final = Option(
    "lakelog.defaults",
    str,
    None,
    "Defaults of a new table with a log: those of Flink Table Store (flip-188: Kafka, transactional, reads start with "
    "latest-full) or of Amoro (amoro: Kafka, eventual without retractions, all changes). Other options take "
    "precedence. CREATE TABLE stores the options of the profile.",
    choices=("flip-188", "amoro"),
)
_TYPE: Final = "log-store.type"
_ADDRESS: Final = "log-store.address"
_PROFILES: Final[dict[str, dict[str, str]]] = {
    "flip-188": {
        _TYPE: "kafka",
        "log-store.data-format": "debezium-json",
        "log.consistency": "transactional",
        "log.changelog-mode": "auto",
        "scan.startup.mode": "latest-full",
    },
    "amoro": {
        _TYPE: "kafka",
        "log-store.data-format": "debezium-json",
        "log-store.consistency-guarantee.enabled": "false",
        "log.consistency": "eventual",
        "log.changelog-mode": "all",
    },
}

COMPATIBILITY_OPTIONS: Final = Declared([*INERT, DEFAULTS])
"""Every option of this page."""


def with_defaults(options: dict[str, str], has_log: bool) -> dict[str, str]:
    """Options of a new table (canonical keys) with those that its profile adds; none without a log.

    A log with an address is of the system that the address names.
    """
    own_options = {key: value for key, value in options.items() if key != DEFAULTS.key}
    profile = Options(options).get_typed(DEFAULTS)
    if profile is None or not has_log:
        return own_options
    added = _PROFILES[profile]
    return {key: added[key] for key in added if key != _TYPE or _ADDRESS not in own_options} | own_options
