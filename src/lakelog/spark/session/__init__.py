"""Registration of the data source, sessions, attached lakes."""

from __future__ import annotations

from lakelog.spark.session.session import session_settings

__all__ = ["session_settings"]
