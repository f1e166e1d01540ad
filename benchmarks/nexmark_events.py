"""Nexmark's events, small and from a seed: of 50, one is a person, three are auctions and 46 bids.

Times are milliseconds since 1970, at 10,000 events per second. Half of the bids are for the newest auctions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

TABLES: Mapping[str, Mapping[str, str]] = {
    "person": {"id": "bigint", "name": "string", "city": "string", "state": "string", "at": "bigint"},
    "auction": {"id": "bigint", "item": "string", "seller": "bigint", "category": "int", "reserve": "bigint",
                "at": "bigint", "expires": "bigint"},
    "bid": {"id": "bigint", "auction": "bigint", "bidder": "bigint", "price": "bigint", "channel": "string",
            "at": "bigint"},
}  # fmt: skip
"""Table → its columns and their types in SQL. The key is ``id``: a bid has the number of its event."""

_START_MS = 1_700_000_000_000
_PER_MS = 10
_STATES = ("OR", "ID", "CA", "WA", "AZ", "WY")
_CITIES = ("Phoenix", "Seattle", "Portland", "Boise", "Bend", "Redmond")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


SHARES: Mapping[str, float] = {"person": 1 / 50, "auction": 3 / 50, "bid": 46 / 50}
"""Table → its share of the events."""


def events(first: int, last: int, tables: Sequence[str], seed: int = 1) -> dict[str, pa.Table]:
    """The rows of events ``first`` to ``last`` (excluded), by table."""
    number = np.arange(first, last)
    kind = number % 50
    chosen = {"person": kind == 0, "auction": (kind > 0) & (kind < 4), "bid": kind >= 4}
    makers = {"person": _persons, "auction": _auctions, "bid": _bids}
    return {
        name: makers[name](number[chosen[name]], np.random.default_rng([seed, first, len(name)])) for name in tables
    }


def _at(number: np.ndarray) -> np.ndarray:
    return _START_MS + number // _PER_MS


def _auction_id(number: np.ndarray) -> np.ndarray:
    """The number of auctions before an event."""
    before: np.ndarray = number // 50 * 3 + np.clip(number % 50 - 1, 0, 3)
    return before


def _persons(number: np.ndarray, draw: np.random.Generator) -> pa.Table:
    ids = number // 50
    place = draw.integers(0, len(_STATES), len(ids))
    names = [f"person {i % 1000}" for i in ids]
    columns = {"name": names, "city": np.array(_CITIES)[place], "state": np.array(_STATES)[place]}
    return pa.table({"id": ids, **columns, "at": _at(number)})


def _auctions(number: np.ndarray, draw: np.random.Generator) -> pa.Table:
    rows, persons = len(number), number // 50 + 1
    seller = np.maximum(0, persons - 1 - draw.integers(0, 200, rows))
    return pa.table(
        {
            "id": _auction_id(number),
            "item": [f"item {i}" for i in draw.integers(0, 10_000, rows)],
            "seller": seller,
            "category": pa.array(10 + draw.integers(0, 5, rows), pa.int32()),
            "reserve": draw.integers(100, 10_000, rows),
            "at": _at(number),
            "expires": _at(number) + draw.integers(1_000, 20_000, rows),
        }
    )


def _bids(number: np.ndarray, draw: np.random.Generator) -> pa.Table:
    rows, known = len(number), _auction_id(number)
    back = np.where(draw.random(rows) < 0.5, draw.integers(1, 10, rows), draw.integers(1, 1_000, rows))
    return pa.table(
        {
            "id": number,
            "auction": np.maximum(0, known - back),
            "bidder": np.maximum(0, number // 50 - draw.integers(0, 1_000, rows)),
            "price": draw.integers(100, 10_000_000, rows),
            "channel": np.array(_CHANNELS)[draw.integers(0, len(_CHANNELS), rows)],
            "at": _at(number),
        }
    )
