"""Options of changelog files, with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.names import name_part_fault
from lakelog.options.option import Option
from lakelog.options.parts import FILE_FORMATS

CHANGELOG_PRODUCERS: Final = ("none", "input", "full-compaction", "lookup")
CHANGELOG_PRODUCER: Final = Option(
    "changelog-producer",
    str,
    "none",
    "Producer of changelog files for readers of the files' changes. input stores the written rows; full-compaction "
    "and lookup compute exact changes in compactions.",
    choices=CHANGELOG_PRODUCERS,
)
CHANGELOG_ROW_DEDUPLICATE: Final = Option(
    "changelog-producer.row-deduplicate",
    bool,
    False,
    "Whether changelogs of compactions omit updates without an effect (producers lookup and full-compaction).",
)
CHANGELOG_DEDUPLICATE_IGNORES: Final = Option(
    "changelog-producer.row-deduplicate-ignore-fields",
    str,
    None,
    "Columns that row-deduplicate ignores, separated by commas, such as a load time. A change in these columns "
    "alone is no change.",
)
CHANGELOG_FILE_FORMAT: Final = Option(
    "changelog-file.format", str, None, "Format of changelog files. Default: the format of data files.",
    choices=FILE_FORMATS,
)  # fmt: skip
CHANGELOG_FILE_COMPRESSION: Final = Option(
    "changelog-file.compression", str, None, "Compression of changelog files. Default: the compression of data files.",
    ("table", "write"), choices=("none", "zstd", "snappy", "gzip", "lz4", "brotli", "zlib", "null"),
)  # fmt: skip
CHANGELOG_FILE_STATS_MODE: Final = Option(
    "changelog-file.stats-mode", str, None,
    "Column statistics of changelog files in manifests. Default: the statistics of data files.", ("table", "write"),
)  # fmt: skip
CHANGELOG_FILE_PREFIX: Final = Option(
    "changelog-file.prefix", str, "changelog-", "Prefix of the names of changelog files.", fault=name_part_fault
)

CHANGELOG_OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Option)
)
