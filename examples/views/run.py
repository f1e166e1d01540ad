"""Creates the views of views.sql and keeps them fresh, until Ctrl-C. `lakelog view run` keeps those fresh that exist.

python run.py [WAREHOUSE] [REFRESHES]      # REFRESHES: stop after so many
"""

from __future__ import annotations

import signal
import sys
from itertools import islice
from pathlib import Path

import lakelog


def run(warehouse: str, most: int | None) -> None:
    lake = lakelog.connect(warehouse)
    lake.sql((Path(__file__).parent / "views.sql").read_text(encoding="utf-8"))
    print(f"keeping {', '.join(lake.views.list())} fresh", flush=True)
    for refresh in islice(lake.views.run(), most):
        print(f"{refresh.view}: {refresh.rows} rows changed", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(*(sys.argv[1:2] or ["./warehouse"]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
    except KeyboardInterrupt:
        print("stopped; the views keep their rows", flush=True)
