"""Functions of Spark that DuckDB does not have, as macros of the local state of a view."""

from __future__ import annotations

from typing import Final

INSTANT: Final = "lakelog_instant"
TRUNCATED: Final = "lakelog_truncated"
QUOTIENT: Final = "lakelog_quotient"
AVERAGE: Final = "lakelog_average"

MACROS: Final = (
    # a time that a change to winter time repeats is the first one, a time that is left out is moved by what is left out
    f"CREATE MACRO {INSTANT}(t) AS (SELECT CASE WHEN CAST(first AS TIMESTAMP) = t THEN first ELSE other END FROM ("
    "SELECT make_timestamptz(epoch_us(t) - (epoch_us(CAST(other - INTERVAL 24 HOUR AS TIMESTAMP)) - "
    "epoch_us(other - INTERVAL 24 HOUR))) AS first, other FROM (SELECT CAST(t AS TIMESTAMPTZ) AS other)))",
    # DAY and shorter units keep the offset of the instant, if the zone has it at the result
    f"CREATE MACRO {TRUNCATED}(part, t) AS (SELECT CASE WHEN CAST(same AS TIMESTAMP) = whole THEN same "
    f"ELSE {INSTANT}(whole) END FROM (SELECT whole, make_timestamptz(epoch_us(t) - (epoch_us(here) - epoch_us(whole))) "
    "AS same FROM (SELECT here, date_trunc(part, here) AS whole FROM (SELECT CAST(t AS TIMESTAMP) AS here))))",
    f"CREATE MACRO {QUOTIENT}(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    "WHEN b = 0 THEN error('division by zero') ELSE CAST(a AS DOUBLE) / CAST(b AS DOUBLE) END",
    # unscaled numbers of the quotient with four digits more, rounded half up; `scale` is a DECIMAL(38, n) of 1 unit
    f"CREATE MACRO {AVERAGE}(total, number, unit) AS CASE WHEN number > 0 THEN CAST((2 * CAST(replace(CAST(total AS "
    "VARCHAR), '.', '') AS HUGEINT) + sign(total) * CAST(number AS HUGEINT)) // (2 * CAST(number AS HUGEINT)) AS "
    "DECIMAL(38, 0)) * unit END",
)
"""Statements that create the functions; each has Spark's results in the time zone of the session."""
