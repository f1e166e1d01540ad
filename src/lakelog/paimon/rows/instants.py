"""The instant that a time means: rows, filters and partitions take a time without a zone as one of this machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(moment: datetime) -> datetime:
    """The instant, in UTC, of a time with a zone, or of one without on this machine's clock.

    A time that the clock skipped is as much later as the clock was put forward, as Spark takes it: 02:30 is 03:30.
    ``datetime.astimezone`` takes it for 01:30. Raises as that does.
    """
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    return _EPOCH + timedelta(seconds=moment.replace(microsecond=0).timestamp(), microseconds=moment.microsecond)
