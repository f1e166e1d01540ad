"""Follows the aggregates: each change of dws.carrier_days as it is refreshed, and how far the views are behind.

python watch.py [WAREHOUSE] [CHANGES]      # CHANGES: stop after so many
"""

from __future__ import annotations

import contextlib
import signal
import sys

import lakelog


def watch(warehouse: str, most: int | None) -> None:
    lake, seen = lakelog.connect(warehouse), 0
    for batch in lake.table("dws.carrier_days").tail("earliest"):
        for row in batch.to_pylist():
            kind, day = row["_row_kind"], row["day"]
            print(f"{kind} {day:%Y-%m-%d} {row['airline']}: {row['departed']} departed, {row['late']} late", flush=True)
        for view in ("dwd.flights", "dws.carrier_days"):
            for source in lake.table(f"{view}$view").scan(["source", "commits_behind"]).to_arrow().to_pylist():
                print(f"   {view} is {source['commits_behind']} commits behind {source['source']}", flush=True)
        seen += batch.num_rows
        if most is not None and seen >= most:
            return


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        watch(*(sys.argv[1:2] or ["./warehouse"]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
