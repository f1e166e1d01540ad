"""Options of when a table is compacted, with the keys and defaults of Apache Paimon; what is picked: options/table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

STOP_TRIGGER: Final = Option(
    "num-sorted-run.stop-trigger",
    int,
    None,
    "Sorted runs of a bucket at which a streaming writer makes no snapshots until a compaction has caught up (the log "
    "goes on); the compaction trigger + 3 unless given.",
    ("table", "write"),
)
FULL_COMPACTION_COMMITS: Final = Option(
    "full-compaction.delta-commits",
    int,
    None,
    "A streaming writer compacts fully after so many commits, a batch write after each when this is above 0.",
    ("table", "write"),
)
FULL_COMPACTION_INTERVAL: Final = Option(
    "changelog-producer.compaction-interval",
    timedelta,
    None,
    "A streaming writer compacts fully when the last time is this long ago; with the changelog producer "
    "full-compaction after each commit when neither this nor a number of commits is given.",
    ("table", "write"),
)
LOOKUP_WAIT: Final = Option(
    "lookup-wait",
    bool,
    True,
    "A batch write into a table whose readers skip level 0 compacts it before it returns, so that its rows are seen.",
    ("table", "write"),
    aliases=("changelog-producer.lookup-wait",),
)

COMPACTION_OPTIONS: Final[tuple[Option[Any], ...]] = (
    STOP_TRIGGER,
    FULL_COMPACTION_COMMITS,
    FULL_COMPACTION_INTERVAL,
    LOOKUP_WAIT,
)
