"""Options that trigger compactions, with the keys and defaults of Apache Paimon; see also options/table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

STOP_TRIGGER: Final = Option(
    "num-sorted-run.stop-trigger",
    int,
    None,
    "Number of sorted runs of a bucket at which a streaming writer pauses snapshots until compaction has caught up. "
    "Writes to the log continue. Default: the compaction trigger + 3.",
    ("table", "write"),
)
FULL_COMPACTION_COMMITS: Final = Option(
    "full-compaction.delta-commits",
    int,
    None,
    "Number of commits after which a streaming writer runs a full compaction. If above 0, a batch write runs one "
    "after each commit.",
    ("table", "write"),
)
FULL_COMPACTION_INTERVAL: Final = Option(
    "changelog-producer.compaction-interval",
    timedelta,
    None,
    "Interval between full compactions of a streaming writer. With the changelog producer full-compaction and "
    "neither this option nor full-compaction.delta-commits, a full compaction follows each commit.",
    ("table", "write"),
)
LOOKUP_WAIT: Final = Option(
    "lookup-wait",
    bool,
    True,
    "Whether a batch write compacts level 0 before it returns, if readers of the table skip level 0. Its rows are "
    "then visible.",
    ("table", "write"),
    aliases=("changelog-producer.lookup-wait",),
)

COMPACTION_OPTIONS: Final[tuple[Option[Any], ...]] = (
    STOP_TRIGGER,
    FULL_COMPACTION_COMMITS,
    FULL_COMPACTION_INTERVAL,
    LOOKUP_WAIT,
)
