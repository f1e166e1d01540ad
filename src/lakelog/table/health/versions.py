"""Which versions of lakelog read and write a table, by what it uses: ``lakelog upgrade --check``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.logstore import log_factory
from lakelog.merge.table_rules import log_content
from lakelog.options.features import FEATURES, TableFeatures
from lakelog.options.log import CHANGES
from lakelog.options.log_partitions import LOG_PARTITIONS
from lakelog.options.option import Options
from lakelog.table.model.dynamic_table import DynamicTable

_FIRST: Final = "0.1.0"
_LAYOUTS: Final = "0.2.0"
"""The version of today's embedded logs, of logs in files, of logs of changes, and of partitions apart from buckets."""


@dataclass(frozen=True)
class TableVersions:
    """What a table uses, the first versions that read and write it, and what an upgrade changes in it."""

    table: str
    features: tuple[str, ...]
    read_from: str
    written_from: str
    change: str


def table_versions(table: DynamicTable) -> TableVersions:
    """The versions of one table, from its schema alone. Raises UnsupportedFeature for an unknown reader feature."""
    features, options, log = TableFeatures.of(table.schema.options), Options(table.schema.options), table.log
    used = [*features.readers, *features.writers]
    reads = [_FIRST, *(FEATURES[name].since for name in features.readers)]
    change = "nothing"
    if log is not None:
        used.append(f"{log.system} log")
        factory = log_factory(log.system)
        if factory.is_local or log_content(options) == CHANGES or options.get_typed(LOG_PARTITIONS) is not None:
            reads.append(_LAYOUTS)
        if factory.is_local and not factory.any_storage:
            change = (
                f"the first use by {_LAYOUTS} changes the layout of a log file of {_FIRST}, which is then refused there"
            )
    writes = [*reads, *(FEATURES[name].since for name in features.writers if name in FEATURES)]
    unknown = [name for name in features.writers if name not in FEATURES]
    return TableVersions(
        table.name, tuple(used), max(reads), f"a version with '{unknown[0]}'" if unknown else max(writes), change
    )
