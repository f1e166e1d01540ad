"""Check of an existing Spark session: missing settings and packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakelog.errors import LakelogError
from lakelog.options.registry import Registry
from lakelog.service.doctor.check import Check, CheckContext, Finding

_SPARK: Final[Registry[Any]] = Registry(
    "session",
    {"at": "lakelog.spark.session.session:session_at", "gaps": "lakelog.spark.session.session:session_gaps"},
)
"""Loaded for a session only, so that the doctor runs without PySpark."""
_START: Final = "check the address, and that the server runs: $SPARK_HOME/sbin/start-connect-server.sh"


class SessionCheck(Check):
    """Checks a given session for the settings of lakelog's own sessions."""

    NAME = "session"
    TITLE = "the Spark session"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        session = around.session
        if around.remote is not None:
            try:
                session = _SPARK.create("at", remote=around.remote)
                _ = session.version
            except LakelogError:
                raise
            except Exception as why:  # Spark has many
                lines = str(why).strip().splitlines() or [type(why).__name__]
                yield self.failed(f"Spark Connect at {around.remote} does not answer: {lines[0]}", _START)
                return
        if session is None:
            return
        gaps = _SPARK.create("gaps", session)
        for gap in gaps:
            found = "is not set" if gap.found is None else f"is {gap.found}"
            yield self.warned(
                f"Spark {session.version}: {gap.key} {found}: {gap.why}",
                f"start the session with --conf {gap.key}={gap.wanted}",
            )
        if not gaps:
            yield self.passed(f"Spark {session.version} with all settings of a session made for streams")
