"""The option that makes a table a materialized view."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option

VIEW: Final = Option(
    "materialized-view",
    str,
    None,
    "Definition of a materialized view, as JSON; CREATE and ALTER MATERIALIZED VIEW write it.",
)
