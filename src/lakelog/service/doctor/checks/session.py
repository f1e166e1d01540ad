"""What does a Spark session that somebody else has made lack?"""

from __future__ import annotations

from collections.abc import Iterator

from lakelog.service.doctor.base import Check, Finding, Surroundings
from lakelog.spark.session_gaps import session_gaps


class SessionCheck(Check):
    """The settings that lakelog gives its own sessions, in one that it was given."""

    NAME = "session"
    TITLE = "the Spark session"

    def look(self, around: Surroundings) -> Iterator[Finding]:
        if around.session is None:
            return
        gaps = session_gaps(around.session)
        for gap in gaps:
            found = "is not set" if gap.found is None else f"is {gap.found}"
            yield self.warned(
                f"Spark {around.session.version}: {gap.key} {found}: {gap.why}",
                f"start the session with --conf {gap.key}={gap.wanted}",
            )
        if not gaps:
            yield self.passed(f"Spark {around.session.version} with all settings of a session made for streams")
