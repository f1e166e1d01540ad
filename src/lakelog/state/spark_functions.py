"""Functions of Spark that DuckDB does not have, as macros of the local state of a view."""

from __future__ import annotations

from typing import Final

from lakelog.errors import InvalidRequest

INSTANT: Final = "lakelog_instant"
TRUNCATED: Final = "lakelog_truncated"
QUOTIENT: Final = "lakelog_quotient"
AVERAGE: Final = "lakelog_average"
DECIMAL_QUOTIENT: Final = "lakelog_decimal_quotient"
WHOLE_QUOTIENT: Final = "lakelog_whole_quotient"
REMAINDER: Final = "lakelog_remainder"
SQUARE_ROOT: Final = "lakelog_square_root"
WHOLE_OF_TEXT: Final = "lakelog_whole_of_text"
LOWER: Final = "lakelog_lower"
UPPER: Final = "lakelog_upper"

NEEDS_SPARK: Final = "lakelog needs Spark for "
"""Start of the message of an error for a value that only Spark computes."""


class NeedsSpark(Exception):
    """A statement has a part whose meaning this process may not share; the text says which.

    ``fault`` is what is wrong with the statement if there is no Spark to understand it.
    """

    def __init__(self, why: str = "", fault: str = "") -> None:
        super().__init__(why)
        self.fault = fault


def failure_of(computing: str, failed: Exception) -> NeedsSpark | InvalidRequest:
    """The error for one of DuckDB in ``computing``: NeedsSpark for a value that only Spark computes."""
    said = str(failed).partition("\n")[0]
    if NEEDS_SPARK in said:
        return NeedsSpark(said.partition(NEEDS_SPARK)[2])
    return InvalidRequest(f"{computing}: {said}")


_UNITS: Final = "lakelog_units"
_LIMIT: Final = "CAST(85000000000000000000000000000000000000 AS HUGEINT)"
"""Half of the largest number of 128 bits."""

_SPECIAL_LETTERS: Final = "[\u00df\u0130\u0149\u01f0\u0390\u03a3\u03b0\u0587\u1e96-\u1e9a\u1f00-\u1fff\ufb00-\ufb17]"


def _unscaled(value: str) -> str:
    return f"CAST(replace(CAST({value} AS VARCHAR), '.', '') AS HUGEINT)"


def _failure(reason: str, spark: bool = False) -> str:
    return f"error('{NEEDS_SPARK if spark else ''}{reason}')"


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
    # the quotient as a number of units, rounded half up; `up` and `down` are the powers of ten between the scales
    f"CREATE MACRO {_UNITS}(n, d, up, down) AS CASE WHEN n IS NULL OR d IS NULL THEN NULL "
    f"WHEN d = 0 THEN {_failure('division by zero')} "
    f"WHEN abs(n) > {_LIMIT} // up OR abs(d) > {_LIMIT} // down // 2 THEN {_failure('a long quotient', True)} "
    "ELSE CAST(sign(n) * sign(d) * ((2 * abs(n) * up + abs(d) * down) // (2 * abs(d) * down)) AS DECIMAL(38, 0)) END",
    # no subquery: a count(*) as an argument would count its rows
    f"CREATE MACRO {DECIMAL_QUOTIENT}(a, b, up, down, unit) AS "
    f"{_UNITS}({_unscaled('a')}, {_unscaled('b')}, up, down) * unit",
    f"CREATE MACRO {WHOLE_QUOTIENT}(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    f"WHEN b = 0 THEN {_failure('division by zero')} ELSE a // b END",
    f"CREATE MACRO {REMAINDER}(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL "
    f"WHEN b = 0 THEN {_failure('division by zero')} ELSE a % b END",
    f"CREATE MACRO {SQUARE_ROOT}(a) AS CASE WHEN a < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(a) END",
    # letters whose other case has several characters, or depends on those around it
    f"CREATE MACRO {LOWER}(a) AS CASE WHEN regexp_matches(a, '{_SPECIAL_LETTERS}') "
    f"THEN {_failure('the case of a letter', True)} ELSE lower(a) END",
    f"CREATE MACRO {UPPER}(a) AS CASE WHEN regexp_matches(a, '{_SPECIAL_LETTERS}') "
    f"THEN {_failure('the case of a letter', True)} ELSE upper(a) END",
    f"CREATE MACRO {WHOLE_OF_TEXT}(a) AS CASE WHEN a IS NULL THEN NULL WHEN regexp_full_match(a, '[+-]?[0-9]+') THEN a "
    f"ELSE {_failure('a text as a number', True)} END",
)
"""Statements that create the functions; each has Spark's results in the time zone of the session."""
