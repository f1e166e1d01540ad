"""Reads tables with pypaimon, in pypaimon's own environment: a line [warehouse, table] in, a line of JSON rows out.

Instead of a warehouse there may be all options of a catalog.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pypaimon import CatalogFactory

from printed import printed_rows

for line in sys.stdin:
    place, name = json.loads(line)
    try:
        table = CatalogFactory.create(place if isinstance(place, dict) else {"warehouse": place}).get_table(name)
        builder = table.new_read_builder()
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        answer = {"rows": [] if rows is None else printed_rows(rows)}
    except Exception as why:
        answer = {"error": f"{type(why).__name__}: {why}"[:500]}
    print(json.dumps(answer), flush=True)
