"""Options of a table's files, with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from lakelog.errors import InvalidOption
from lakelog.options.changelog import CHANGELOG_OPTIONS, CHANGELOG_PRODUCER
from lakelog.options.commit import COMMIT_OPTIONS
from lakelog.options.compaction import COMPACTION_OPTIONS
from lakelog.options.constraints import CHECK_PREFIX
from lakelog.options.file_index import BLOOM_PREFIX, FILE_INDEX_OPTIONS
from lakelog.options.iceberg import ICEBERG_OPTIONS
from lakelog.options.log import LOG_ENABLED
from lakelog.options.names import directory_fault, name_part_fault
from lakelog.options.optimizer import OPTIMIZER_OPTIONS
from lakelog.options.option import Declared, MemorySize, Option, Options
from lakelog.options.overwrite import OVERWRITE_OPTIONS
from lakelog.options.parts import FILE_FORMATS, MERGE_ENGINES
from lakelog.options.picking import PICKING_OPTIONS
from lakelog.options.rejected import REJECTED_OPTIONS
from lakelog.options.retention import RETENTION_OPTIONS
from lakelog.options.view import VIEW

MiB: Final = 1 << 20

TABLE_ID: Final = "lakelog.table-id"
"""The key in a schema's options under which CREATE stores the identity of its table."""


def is_of_another_table(named: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Returns whether options or properties name another table than ``own``; those of Paimon name none."""
    return TABLE_ID in named and TABLE_ID in own and named[TABLE_ID] != own[TABLE_ID]


_WRITE: Final = ("table", "write")

PRIMARY_KEY: Final = Option(
    "primary-key", str, None, "Primary key columns, separated by commas; same as PRIMARY KEY (…).", immutable=True
)
PARTITION: Final = Option(
    "partition", str, None, "Partition columns, separated by commas; same as PARTITIONED BY (…).", immutable=True
)

BUCKET: Final = Option(
    "bucket",
    int,
    -1,
    "Number of buckets. -1 means dynamic buckets with a primary key, and no buckets without. A table with a primary "
    "key that is created without this option gets 1. A bucket is one LSM tree and, by default, one log partition.",
)
DYNAMIC_TARGET_ROWS: Final = Option(
    "dynamic-bucket.target-row-num",
    int,
    2_000_000,
    "Target number of keys per dynamic bucket (bucket -1). Beyond it, new keys go to the next bucket.",
)
DYNAMIC_INITIAL_BUCKETS: Final = Option(
    "dynamic-bucket.initial-buckets", int, None, "Number of dynamic buckets of a new partition. Default: 1.",
    immutable=True,
)  # fmt: skip
DYNAMIC_MAX_BUCKETS: Final = Option(
    "dynamic-bucket.max-buckets",
    int,
    -1,
    "Maximum number of dynamic buckets per partition; beyond it the buckets grow. -1 means no limit.",
)
BUCKET_KEY: Final = Option(
    "bucket-key",
    str,
    None,
    "Columns that determine the bucket, separated by commas. Default: the primary key. Without one, a table with a "
    "number of buckets gets all columns that are neither nested nor of the partition: the whole row decides.",
    immutable=True,
)
BUCKET_FUNCTION: Final = Option(
    "bucket-function.type",
    str,
    "default",
    "Function that maps the bucket key to a bucket. mod uses the remainder of one integer column.",
    choices=("default", "mod", "hive"),
    immutable=True,
)

FILE_FORMAT: Final = Option(
    "file.format", str, "parquet", "Format of new data files. One table may hold files of several formats.",
    choices=FILE_FORMATS,
)  # fmt: skip
FILE_COMPRESSION: Final = Option(
    "file.compression", str, "zstd",
    "Compression of new data files. Paimon's writers use null instead of none in Avro files, and zlib instead of "
    "gzip in ORC files.",
    _WRITE, choices=("none", "zstd", "snappy", "gzip", "lz4", "brotli", "zlib", "null"),
)  # fmt: skip
FILE_FORMAT_PER_LEVEL: Final = Option(
    "file.format.per.level",
    str,
    None,
    "Format of new data files by level, like 0:avro,5:orc. Other levels use file.format.",
)
FILE_COMPRESSION_PER_LEVEL: Final = Option(
    "file.compression.per.level", str, None, "Compression of new data files by level, like 0:none,5:zstd.", _WRITE
)
FILE_SUFFIX_COMPRESSION: Final = Option(
    "file.suffix.include.compression",
    bool,
    False,
    "Whether names of data files include the compression: data-….zstd.parquet.",
)
DATA_DIRECTORY: Final = Option(
    "data-file.path-directory", str, None, "Directory of partitions and buckets, inside the table's directory.",
    immutable=True, fault=directory_fault,
)  # fmt: skip
ZSTD_LEVEL: Final = Option(
    "file.compression.zstd-level", int, 1, "Compression level of zstd in new data files, 1 to 22.", _WRITE
)
THIN_MODE: Final = Option(
    "data-file.thin-mode", bool, False, "Whether to omit the copies of the key columns from new data files."
)
DATA_FILE_PREFIX: Final = Option(
    "data-file.prefix", str, "data-", "Prefix of the names of data files.", fault=name_part_fault
)
TARGET_FILE_SIZE: Final = Option(
    "target-file-size",
    MemorySize,
    None,
    "Approximate size at which a write starts a new data file. Default: 128 mb with a primary key, 256 mb without.",
    _WRITE,
)
STATS_MODE: Final = Option(
    "metadata.stats-mode",
    str,
    "truncate(16)",
    "Column statistics in manifests: none, counts, full or truncate(n). Use 'fields.<column>.stats-mode' for one "
    "column.",
    _WRITE,
)
STATS_MODE_PER_LEVEL: Final = Option(
    "metadata.stats-mode.per.level", str, None, "Column statistics by level, like 0:none.", _WRITE
)
STATS_FIRST_COLUMNS: Final = Option(
    "metadata.stats-keep-first-n-columns",
    int,
    -1,
    "Number of leading columns with statistics. -1 means all columns.",
    _WRITE,
)
STATS_DENSE: Final = Option(
    "metadata.stats-dense-store", bool, True, "Whether manifests omit columns without statistics.", _WRITE
)

MERGE_ENGINE: Final = Option(
    "merge-engine",
    str,
    "deduplicate",
    "Rule that merges the rows of one key.",
    choices=MERGE_ENGINES,
    immutable=True,
)
SEQUENCE_FIELD: Final = Option(
    "sequence.field", str, None, "Columns that determine the newest row of a key, separated by commas."
)
SEQUENCE_FIELD_ORDER: Final = Option(
    "sequence.field.sort-order", str, "ascending",
    "Sort order of the sequence field: ascending makes the largest value the newest, descending the smallest.",
    choices=("ascending", "descending"),
)  # fmt: skip
IGNORE_DELETE: Final = Option(
    "ignore-delete", bool, False, "Whether to drop incoming rows of kind -D and -U.",
    aliases=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)  # fmt: skip
DEFAULT_AGGREGATE: Final = Option(
    "fields.default-aggregate-function", str, None, "Aggregate function of columns without their own."
)
AGGREGATION_REMOVE_ON_DELETE: Final = Option(
    "aggregation.remove-record-on-delete", bool, False, "Whether a row of kind -D deletes the key.", immutable=True
)
PARTIAL_REMOVE_ON_DELETE: Final = Option(
    "partial-update.remove-record-on-delete", bool, False, "Whether a row of kind -D deletes the key.", immutable=True
)
PARTIAL_REMOVE_ON_GROUP: Final = Option(
    "partial-update.remove-record-on-sequence-group",
    str,
    None,
    "Columns of sequence groups, separated by commas. A row of kind -D that is newer in one of them deletes the key.",
    immutable=True,
)
ROWKIND_FIELD: Final = Option(
    "rowkind.field", str, None, "Column with the row kind (+I, -U, +U, -D) of each row.", immutable=True
)
DELETION_VECTORS: Final = Option(
    "deletion-vectors.enabled",
    bool,
    False,
    "Whether to mark deleted rows in deletion vectors instead of merging on read.",
)
WIDE_VECTORS: Final = Option(
    "deletion-vectors.bitmap64",
    bool,
    False,
    "Whether new deletion vectors have 64-bit positions, as in Apache Iceberg. Existing vectors are converted when "
    "they are rewritten.",
)
MERGE_ON_READ: Final = Option(
    "deletion-vectors.merge-on-read",
    bool,
    False,
    "Whether batch reads also merge level 0 in tables where they skip it by default: those with a key and deletion "
    "vectors, or with the merge engine first-row.",
    scope=("table", "read"),
)
FORCE_LOOKUP: Final = Option(
    "force-lookup",
    bool,
    False,
    "Whether compactions look up the rows that they replace, as with deletion vectors.",
    immutable=True,
)
INDEX_IN_DATA_DIRECTORY: Final = Option(
    "index-file-in-data-file-dir",
    bool,
    False,
    "Whether the index files of a bucket are in the directory of its data files.",
    immutable=True,
)

DELETION_VECTORS_MODIFIABLE: Final = Option(
    "deletion-vectors.modifiable",
    bool,
    False,
    "Whether 'deletion-vectors.enabled' may change. Compact the table fully before the change.",
)

NULL_TO_NOT_NULL_DISABLED: Final = Option(
    "alter-column-null-to-not-null.disabled",
    bool,
    True,
    "Whether to reject changes of a nullable column to NOT NULL. With false, you guarantee that no row has NULL in "
    "the column.",
)
EXPLICIT_CASTING_DISABLED: Final = Option(
    "disable-explicit-type-casting",
    bool,
    True,
    "Whether to reject changes to a type that does not have all values of the former one, such as BIGINT to INT. With "
    "false, such a change is accepted, and a read fails at a value that does not fit.",
)
ADD_COLUMN_BEFORE_PARTITION: Final = Option(
    "add-column-before-partition",
    bool,
    False,
    "Whether a new column without a position goes before the first partition column instead of to the end.",
)

WRITE_ONLY: Final = Option(
    "write-only",
    bool,
    False,
    "Whether to skip compaction and expiry after a write and leave them to another job.",
    _WRITE,
)
WRITE_BUFFER_SIZE: Final = Option(
    "write-buffer-size",
    MemorySize,
    MemorySize(256 * MiB),
    "Memory of one writer for buffered rows. A full buffer is flushed to files.",
    _WRITE,
)
COMPACTION_TRIGGER: Final = Option(
    "num-sorted-run.compaction-trigger", int, 5, "Number of sorted runs of a bucket that starts a compaction.", _WRITE
)
COMPACTION_MIN_FILES: Final = Option(
    "compaction.min.file-num",
    int,
    5,
    "Number of adjacent small files that starts a compaction, in a table without a primary key.",
    _WRITE,
)
NUM_LEVELS: Final = Option(
    "num-levels", int, None, "Number of levels of a bucket. Default: the compaction trigger + 1."
)
SIZE_AMPLIFICATION: Final = Option(
    "compaction.max-size-amplification-percent",
    int,
    200,
    "Maximum size of a bucket's newer runs as a percentage of its oldest run. Beyond it the whole bucket is compacted.",
    _WRITE,
)
SIZE_RATIO: Final = Option(
    "compaction.size-ratio",
    int,
    1,
    "Percentage by which the next run may be larger and still be included in a compaction.",
    _WRITE,
)

WRITE_SHUFFLE: Final = Option(
    "write.shuffle",
    str,
    "auto",
    "Whether a batch write by lake.sql or lake.write first shuffles the rows of a bucket into one task. bucket "
    "gives each bucket one sorted run. none skips the shuffle; each task adds one run. auto shuffles if the rows "
    "are worth several tasks and arrive in more tasks than a bucket should get runs.",
    _WRITE,
    choices=("auto", "none", "bucket"),
    aliases=("write.distribution-mode",),
    words={"hash": "bucket"},
)

MISSING_NULL: Final = "null"
MISSING_COLUMNS: Final = Option(
    "write.missing-columns",
    str,
    "error",
    "Meaning of a column that the rows of a write lack, where a row replaces the whole row of its key (merge engine "
    "deduplicate), and of a field that a struct lacks. error refuses the write. null writes NULL in its place. The "
    "columns that INSERT (columns) does not name are NULL in any case. Defaults of columns take precedence.",
    _WRITE,
    choices=("error", MISSING_NULL),
)

PARTITION_DEFAULT_NAME: Final = Option(
    "partition.default-name",
    str,
    "__DEFAULT_PARTITION__",
    "Directory value of a NULL or blank partition column.",
    fault=name_part_fault,
)
PARTITION_LEGACY_NAME: Final = Option(
    "partition.legacy-name",
    bool,
    True,
    "Whether directory values are the stored values (a DATE as days) instead of SQL text.",
    immutable=True,
)

_IMPORTED: Final = (LOG_ENABLED, CHANGELOG_PRODUCER, VIEW)
"""Declared in other modules; already in another set."""
_ALL: Final[tuple[Option[Any], ...]] = (
    *(value for value in list(globals().values()) if isinstance(value, Option) and value not in _IMPORTED),
    *OVERWRITE_OPTIONS,
    *RETENTION_OPTIONS,
    *COMPACTION_OPTIONS,
    *CHANGELOG_OPTIONS,
    *PICKING_OPTIONS,
    *COMMIT_OPTIONS,
    *REJECTED_OPTIONS,
    VIEW,
    *FILE_INDEX_OPTIONS,
    *OPTIMIZER_OPTIONS,
    *ICEBERG_OPTIONS,
)

QUERY_AUTH: Final = "query-auth.enabled"
"""Paimon's flag of a table whose catalog decides, per user, which rows and columns a query returns."""

TABLE_OPTIONS: Final = Declared(_ALL, free_prefixes=("fields.", BLOOM_PREFIX, CHECK_PREFIX))
"""Every declared option of the files; ``fields.<column>.…`` and ``file-index.bloom-filter.…`` pass as they are.

``check.…`` are constraints."""


Missing = Literal["error", "null"]
"""Values of ``write.missing-columns``."""
MISSING_AS_NULL: Final[Mapping[str, str]] = {MISSING_COLUMNS.key: MISSING_NULL}
"""Option of a write whose rows may lack columns."""


def with_missing(options: Mapping[str, str] | None, missing: Missing | None) -> dict[str, str]:
    """Options of a write with ``write.missing-columns``, if it is given."""
    return {**(options or {}), **({} if missing is None else {MISSING_COLUMNS.key: missing})}


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
