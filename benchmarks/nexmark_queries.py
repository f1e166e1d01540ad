"""Queries of Nexmark as materialized views of lakelog and as one statement of Flink SQL, with the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """``views`` are the views by name in their order, the last of which has the rows of the query.

    ``flink`` is the query in Flink's SQL, whose columns have the types ``columns``; its first ``key`` ones are the key.
    ``sources`` are the tables that it reads. ``note`` says what is said otherwise than in Nexmark.
    """

    sources: tuple[str, ...]
    views: Mapping[str, str]
    flink: str
    columns: Mapping[str, str]
    key: int = 1
    note: str = ""


_HOT = """with counts as (select auction, `at` - mod(`at`, 2000) - o.back as started, count(*) as bids from bid
cross join (values (cast(0 as bigint)), (2000), (4000), (6000), (8000)) as o(back)
group by auction, `at` - mod(`at`, 2000) - o.back),
most as (select started, max(bids) as bids from counts group by started)
select c.started, c.auction, c.bids from counts c join most m on c.started = m.started and c.bids = m.bids"""

_NEWEST = "on conflict do deduplicate"
"""Makes Flink order the changes of a key that a join has computed in several tasks."""

QUERIES: Mapping[str, Query] = {
    "q1": Query(
        ("bid",),
        {"q1": "select id, auction, bidder, 0.908 * price as price, `at` from db.bid"},
        "select id, auction, bidder, 0.908 * price as price, `at` from bid",
        {"id": "bigint", "auction": "bigint", "bidder": "bigint", "price": "decimal(24, 3)", "at": "bigint"},
    ),
    "q2": Query(
        ("bid",),
        {"q2": "select id, auction, price from db.bid where auction % 123 = 0"},
        "select id, auction, price from bid where mod(auction, 123) = 0",
        {"id": "bigint", "auction": "bigint", "price": "bigint"},
    ),
    "q3": Query(
        ("person", "auction"),
        {
            "q3": "select a.id, p.name, p.city, p.state from db.auction a join db.person p on a.seller = p.id "
            "where a.category = 10 and p.state in ('OR', 'ID', 'CA')"
        },
        "select a.id, p.name, p.city, p.state from auction a join person p on a.seller = p.id "
        f"where a.category = 10 and p.state in ('OR', 'ID', 'CA') {_NEWEST}",
        {"id": "bigint", "name": "string", "city": "string", "state": "string"},
    ),
    "q4": Query(
        ("auction", "bid"),
        {
            "q4_final": "select a.id, a.category, max(b.price) as final from db.auction a join db.bid b on "
            "a.id = b.auction where b.`at` between a.`at` and a.expires group by a.id, a.category",
            "q4": "select category, avg(final) as final from db.q4_final group by category",
        },
        "select category, avg(cast(final as double)) as final from (select max(b.price) as final, a.category from "
        "auction a join bid b on a.id = b.auction where b.`at` between a.`at` and a.expires group by a.id, a.category) "
        "group by category",
        {"category": "int", "final": "double"},
        note="two views: an aggregate over an aggregate in one view is computed as a whole",
    ),
    "q5": Query(
        ("bid",),
        {
            "q5_slice": "select auction, `at` - `at` % 2000 as started, count(*) as bids from db.bid "
            "group by auction, `at` - `at` % 2000",
            "q5_count": "select s.auction, s.started - o.back as started, sum(s.bids) as bids from db.q5_slice s "
            "join db.window_start o on o.back >= 0 group by s.auction, s.started - o.back",
            "q5_most": "select started, max(bids) as bids from db.q5_count group by started",
            "q5": "select c.started, c.auction, c.bids from db.q5_count c join db.q5_most m on c.started = m.started "
            "and c.bids = m.bids",
        },
        f"{_HOT} {_NEWEST}",
        {"started": "bigint", "auction": "bigint", "bids": "bigint"},
        key=2,
        note="four views: a view has no HOP; slices of 2 s and a table of the 5 starts of a window say the same",
    ),
    "q8": Query(
        ("person", "auction"),
        {
            "q8": "select distinct p.id, p.name, p.`at` - p.`at` % 10000 as started from db.person p join db.auction a "
            "on p.id = a.seller and p.`at` - p.`at` % 10000 = a.`at` - a.`at` % 10000"
        },
        "select distinct p.id, p.name, p.`at` - mod(p.`at`, 10000) as started from person p join auction a "
        "on p.id = a.seller and p.`at` - mod(p.`at`, 10000) = a.`at` - mod(a.`at`, 10000)",
        {"id": "bigint", "name": "string", "started": "bigint"},
        key=3,
        note="the tumbling window is an expression",
    ),
}
