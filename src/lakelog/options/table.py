"""Options of a table's files, with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.errors import InvalidOption
from lakelog.options.compaction import COMPACTION_OPTIONS
from lakelog.options.file_index import BLOOM_PREFIX, FILE_INDEX_OPTIONS
from lakelog.options.log import LOG_ENABLED
from lakelog.options.names import directory_fault, name_part_fault
from lakelog.options.optimizer import OPTIMIZER_OPTIONS
from lakelog.options.option import Declared, MemorySize, Option, Options
from lakelog.options.overwrite import OVERWRITE_OPTIONS
from lakelog.options.parts import FILE_FORMATS, MERGE_ENGINES
from lakelog.options.picking import PICKING_OPTIONS
from lakelog.options.retention import RETENTION_OPTIONS

KiB: Final = 1 << 10
MiB: Final = 1 << 20

_WRITE: Final = ("table", "write")

PRIMARY_KEY: Final = Option(
    "primary-key", str, None, "Primary key columns, with commas; another way to write PRIMARY KEY (…).", immutable=True
)
PARTITION: Final = Option(
    "partition", str, None, "Partition columns, with commas; another way to write PARTITIONED BY (…).", immutable=True
)

BUCKET: Final = Option(
    "bucket",
    int,
    -1,
    "Number of buckets; -1 means dynamic buckets with a primary key and none without. A bucket is one LSM tree and one "
    "log partition.",
)
DYNAMIC_TARGET_ROWS: Final = Option(
    "dynamic-bucket.target-row-num", int, 2_000_000, "Keys of a dynamic bucket (bucket -1) before the next one begins."
)
DYNAMIC_INITIAL_BUCKETS: Final = Option(
    "dynamic-bucket.initial-buckets", int, None, "Dynamic buckets that a partition begins with; 1 unless given.",
    immutable=True,
)  # fmt: skip
DYNAMIC_MAX_BUCKETS: Final = Option(
    "dynamic-bucket.max-buckets", int, -1, "Dynamic buckets of a partition at most; then they grow. -1 is no limit."
)
BUCKET_KEY: Final = Option(
    "bucket-key", str, None, "Columns that decide the bucket, with commas; without it the primary key.", immutable=True
)
BUCKET_FUNCTION: Final = Option(
    "bucket-function.type",
    str,
    "default",
    "How a bucket follows from the bucket key; mod takes the remainder of one whole-number column.",
    choices=("default", "mod", "hive"),
    immutable=True,
)

FILE_FORMAT: Final = Option(
    "file.format", str, "parquet", "Format of new data files; one table may hold files of several formats.",
    choices=FILE_FORMATS,
)  # fmt: skip
FILE_COMPRESSION: Final = Option(
    "file.compression", str, "zstd",
    "Compression of new data files. Paimon's writers ask for null, not none, in Avro files and zlib, not gzip, in ORC.",
    _WRITE, choices=("none", "zstd", "snappy", "gzip", "lz4", "brotli", "zlib", "null"),
)  # fmt: skip
FILE_FORMAT_PER_LEVEL: Final = Option(
    "file.format.per.level", str, None, "Formats of some levels' files, like 0:avro,5:orc; the others have file.format."
)
FILE_COMPRESSION_PER_LEVEL: Final = Option(
    "file.compression.per.level", str, None, "Compressions of some levels' files, like 0:none,5:zstd.", _WRITE
)
FILE_SUFFIX_COMPRESSION: Final = Option(
    "file.suffix.include.compression", bool, False, "Names of data files tell their compression: data-….zstd.parquet."
)
DATA_DIRECTORY: Final = Option(
    "data-file.path-directory", str, None, "Directory below the table's in which partitions and buckets lie.",
    immutable=True, fault=directory_fault,
)  # fmt: skip
ZSTD_LEVEL: Final = Option("file.compression.zstd-level", int, 1, "Level of zstd in new data files, 1 to 22.", _WRITE)
THIN_MODE: Final = Option(
    "data-file.thin-mode", bool, False, "Leave the copies of the key columns out of new data files."
)
DATA_FILE_PREFIX: Final = Option(
    "data-file.prefix", str, "data-", "How names of data files begin.", fault=name_part_fault
)
CHANGELOG_FILE_PREFIX: Final = Option(
    "changelog-file.prefix", str, "changelog-", "How names of changelog files begin.", fault=name_part_fault
)
TARGET_FILE_SIZE: Final = Option(
    "target-file-size",
    MemorySize,
    None,
    "Begin a new data file at about this size: 128 mb with a primary key, 256 mb without, unless given.",
    _WRITE,
)
STATS_MODE: Final = Option(
    "metadata.stats-mode",
    str,
    "truncate(16)",
    "Column statistics in manifests: none, counts, full or truncate(n); 'fields.<column>.stats-mode' for one column.",
    _WRITE,
)
STATS_MODE_PER_LEVEL: Final = Option(
    "metadata.stats-mode.per.level", str, None, "Statistics of some levels' files, like 0:none.", _WRITE
)
STATS_FIRST_COLUMNS: Final = Option(
    "metadata.stats-keep-first-n-columns", int, -1, "Only so many columns have statistics; -1 is all of them.", _WRITE
)
STATS_DENSE: Final = Option(
    "metadata.stats-dense-store", bool, True, "Columns without statistics take no place in manifests.", _WRITE
)

MERGE_ENGINE: Final = Option(
    "merge-engine",
    str,
    "deduplicate",
    "What the rows of one key become.",
    choices=MERGE_ENGINES,
    immutable=True,
)
SEQUENCE_FIELD: Final = Option(
    "sequence.field", str, None, "Columns, with commas, that decide which row of a key is the newest."
)
SEQUENCE_FIELD_ORDER: Final = Option(
    "sequence.field.sort-order", str, "ascending", "Whether the largest or the smallest sequence field is the newest.",
    choices=("ascending", "descending"),
)  # fmt: skip
IGNORE_DELETE: Final = Option(
    "ignore-delete", bool, False, "Drop incoming rows of kind -D and -U.",
    aliases=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)  # fmt: skip
DEFAULT_AGGREGATE: Final = Option(
    "fields.default-aggregate-function", str, None, "Aggregate function of columns that have none of their own."
)
AGGREGATION_REMOVE_ON_DELETE: Final = Option(
    "aggregation.remove-record-on-delete", bool, False, "A row of kind -D deletes the key.", immutable=True
)
PARTIAL_REMOVE_ON_DELETE: Final = Option(
    "partial-update.remove-record-on-delete", bool, False, "A row of kind -D deletes the key.", immutable=True
)
PARTIAL_REMOVE_ON_GROUP: Final = Option(
    "partial-update.remove-record-on-sequence-group",
    str,
    None,
    "Columns of sequence groups, with commas: a row of kind -D that is newer in one of them deletes the key.",
    immutable=True,
)
ROWKIND_FIELD: Final = Option(
    "rowkind.field", str, None, "A column that holds the row kind (+I, -U, +U, -D) of each row.", immutable=True
)
CHANGELOG_PRODUCERS: Final = ("none", "input", "full-compaction", "lookup")
CHANGELOG_PRODUCER: Final = Option(
    "changelog-producer",
    str,
    "none",
    "Whether and when changelog files are written for readers of the files' changes.",
    choices=CHANGELOG_PRODUCERS,
)
CHANGELOG_ROW_DEDUPLICATE: Final = Option(
    "changelog-producer.row-deduplicate",
    bool,
    False,
    "Changelogs made by compactions leave out updates that changed nothing (producers lookup and full-compaction).",
)
CHANGELOG_DEDUPLICATE_IGNORES: Final = Option(
    "changelog-producer.row-deduplicate-ignore-fields",
    str,
    None,
    "Columns, with commas, whose change alone is no change for row-deduplicate, like the time of a load.",
)
CHANGELOG_FILE_FORMAT: Final = Option(
    "changelog-file.format", str, None, "Format of changelog files; that of data files unless given.",
    choices=FILE_FORMATS,
)  # fmt: skip
CHANGELOG_FILE_COMPRESSION: Final = Option(
    "changelog-file.compression", str, None, "Compression of changelog files; that of data files unless given.",
    _WRITE, choices=FILE_COMPRESSION.choices,
)  # fmt: skip
CHANGELOG_FILE_STATS_MODE: Final = Option(
    "changelog-file.stats-mode", str, None, "Statistics of changelog files in manifests; those of data files unless "
    "given.", _WRITE,
)  # fmt: skip
DELETION_VECTORS: Final = Option(
    "deletion-vectors.enabled", bool, False, "Mark deleted rows beside the data files instead of merging on read."
)
WIDE_VECTORS: Final = Option(
    "deletion-vectors.bitmap64",
    bool,
    False,
    "New deletion vectors have 64-bit positions, like those of Apache Iceberg; old ones are taken over.",
)
MERGE_ON_READ: Final = Option(
    "deletion-vectors.merge-on-read",
    bool,
    False,
    "Batch readers of a keyed table with deletion vectors merge level 0 too, instead of skipping it.",
)
FORCE_LOOKUP: Final = Option(
    "force-lookup", bool, False, "Compactions look up what they replace, as with deletion vectors.", immutable=True
)
INDEX_BESIDE_DATA: Final = Option(
    "index-file-in-data-file-dir", bool, False, "Index files of a bucket lie beside its data files.", immutable=True
)

DELETION_VECTORS_MODIFIABLE: Final = Option(
    "deletion-vectors.modifiable", bool, False, "Let 'deletion-vectors.enabled' change; compact the table fully before."
)

NULL_TO_NOT_NULL_DISABLED: Final = Option(
    "alter-column-null-to-not-null.disabled",
    bool,
    True,
    "Refuse to make a nullable column NOT NULL; false is a promise that no row has NULL there.",
)
EXPLICIT_CASTING_DISABLED: Final = Option(
    "disable-explicit-type-casting",
    bool,
    False,
    "Refuse changes of a column's type by which values may lose something, such as BIGINT to INT.",
)
ADD_COLUMN_BEFORE_PARTITION: Final = Option(
    "add-column-before-partition",
    bool,
    False,
    "Put a new column without a position before the first partition column, not at the end.",
)

WRITE_ONLY: Final = Option(
    "write-only", bool, False, "Neither compact nor expire after a write; another job does it.", _WRITE
)
WRITE_BUFFER_SIZE: Final = Option(
    "write-buffer-size", MemorySize, MemorySize(256 * MiB), "Memory of one writer before rows go to files.", _WRITE
)
COMPACTION_TRIGGER: Final = Option(
    "num-sorted-run.compaction-trigger", int, 5, "Sorted runs of a bucket that start a compaction.", _WRITE
)
COMPACTION_MIN_FILES: Final = Option(
    "compaction.min.file-num",
    int,
    5,
    "Small neighbouring files of a table without a primary key that start a compaction.",
    _WRITE,
)
NUM_LEVELS: Final = Option("num-levels", int, None, "Levels of a bucket; the compaction trigger + 1 unless given.")
SIZE_AMPLIFICATION: Final = Option(
    "compaction.max-size-amplification-percent",
    int,
    200,
    "Compact a whole bucket when its newer runs pass this share of the oldest.",
    _WRITE,
)
SIZE_RATIO: Final = Option(
    "compaction.size-ratio", int, 1, "Percent by which the next run may be larger and still be compacted.", _WRITE
)

WRITE_SHUFFLE: Final = Option(
    "write.shuffle",
    str,
    "auto",
    "Whether a batch write by lake.sql or lake.write first brings the rows of a bucket into one task: bucket gives "
    "each bucket one sorted run; none saves the shuffle and gives it one for each task; auto shuffles what is worth "
    "several tasks and comes in more tasks than a bucket can take runs.",
    _WRITE,
    choices=("auto", "none", "bucket"),
)

PARTITION_DEFAULT_NAME: Final = Option(
    "partition.default-name",
    str,
    "__DEFAULT_PARTITION__",
    "Directory value of a NULL or blank partition column.",
    fault=name_part_fault,
)
PARTITION_LEGACY_NAME: Final = Option(
    "partition.legacy-name", bool, True, "Directory values as stored (a DATE as days), not as SQL text.", immutable=True
)

MANIFEST_TARGET_SIZE: Final = Option(
    "manifest.target-file-size", MemorySize, MemorySize(8 * MiB), "Manifests below this size may be merged."
)
MANIFEST_MERGE_COUNT: Final = Option("manifest.merge-min-count", int, 30, "Small manifests that start a merge of them.")
MANIFEST_FULL_COMPACTION_SIZE: Final = Option(
    "manifest.full-compaction-threshold-size",
    MemorySize,
    MemorySize(16 * MiB),
    "Size of changed manifests that starts a full rewrite.",
)
MANIFEST_COMPRESSION: Final = Option(
    "manifest.compression",
    str,
    "zstd",
    "Compression of manifests; Paimon's writers know null, not none.",
    choices=("zstd", "none", "null"),
)

COMMIT_MAX_RETRIES: Final = Option(
    "commit.max-retries",
    int,
    None,
    "Maximum number of times that a commit which lost a race is tried again. Without it a commit is tried again for as "
    "long as other commits succeed, and 10 times without any.",
    _WRITE,
)
COMMIT_TIMEOUT: Final = Option(
    "commit.timeout", timedelta, None, "How long a commit may try again; no limit unless given.", _WRITE
)
COMMIT_MIN_WAIT: Final = Option(
    "commit.min-retry-wait", timedelta, timedelta(milliseconds=10), "First wait of a commit that lost a race.", _WRITE
)
COMMIT_MAX_WAIT: Final = Option(
    "commit.max-retry-wait", timedelta, timedelta(seconds=10), "Longest wait of a commit that lost a race.", _WRITE
)
COMMIT_USER_PREFIX: Final = Option(
    "commit.user-prefix", str, None, "How the commit user's name begins.", _WRITE, fault=name_part_fault
)

SNAPSHOTS_MIN: Final = Option("snapshot.num-retained.min", int, 10, "Snapshots that expiry always keeps.")
SNAPSHOTS_MAX: Final = Option("snapshot.num-retained.max", int, 2**31 - 1, "Snapshots that expiry keeps at most.")
SNAPSHOT_TIME: Final = Option(
    "snapshot.time-retained", timedelta, timedelta(hours=1), "Age up to which expiry keeps a snapshot."
)
SNAPSHOT_EXPIRE_LIMIT: Final = Option("snapshot.expire.limit", int, 50, "Snapshots that one expiry removes at most.")

_ALL: Final[tuple[Option[Any], ...]] = (
    *(value for value in list(globals().values()) if isinstance(value, Option) and value is not LOG_ENABLED),
    *OVERWRITE_OPTIONS,
    *RETENTION_OPTIONS,
    *COMPACTION_OPTIONS,
    *PICKING_OPTIONS,
    *FILE_INDEX_OPTIONS,
    *OPTIMIZER_OPTIONS,
)

TABLE_OPTIONS: Final = Declared(_ALL, free_prefixes=("fields.", BLOOM_PREFIX))
"""Every declared option of the files; ``fields.<column>.…`` and ``file-index.bloom-filter.…`` pass as they are."""


def levels_of(option: Option[str], options: Options) -> dict[int, str]:
    """Level → value, from an option like ``0:avro,5:orc``. Raises InvalidOption."""
    text = options.get_typed(option)
    out: dict[int, str] = {}
    for part in (text or "").split(","):
        level, colon, value = part.partition(":")
        if not part.strip():
            continue
        if not colon or not level.strip().isdigit() or not value.strip():
            raise InvalidOption(f"option '{option.key}' = '{text}': write levels and values, like 0:none,5:zstd")
        out[int(level)] = value.strip().lower()
    return out
