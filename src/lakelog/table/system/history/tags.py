"""``$tags``: the tags of the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Final

import numpy as np

from lakelog.paimon.types.types import AtomicType
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed

# Paimon declares milliseconds but returns all digits of the tag's file
NANOS: Final = AtomicType("TIMESTAMP", precision=9)


class AllTags(MetadataTable):
    """One row per tag, by name."""

    COLUMNS: ClassVar[Columns] = (
        ("tag_name", needed(TEXT)),
        ("snapshot_id", needed(LONG)),
        ("schema_id", needed(LONG)),
        ("commit_time", needed(TIME)),
        ("record_count", LONG),
        ("create_time", NANOS),
        ("time_retained", TEXT),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The tags."""
        for tag in sorted(self.table.store.tags.list(), key=lambda tag: tag.name):
            s = tag.snapshot
            retained = None if tag.retained is None else duration_text(tag.retained)
            created = None if tag.created is None else np.datetime64(tag.created, "ns") + tag.created_nanos
            yield tag.name, s.id, s.schema_id, local_time(s.time_millis), s.total_record_count, created, retained


def duration_text(duration: timedelta) -> str:
    """A duration in ISO form as Java prints it: hours, minutes, seconds, such as ``PT36H`` or ``PT1M0.5S``."""
    millis = round(duration.total_seconds() * 1000)
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    text = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{seconds}S" if rest else "")
    return f"PT{text or '0S'}"
