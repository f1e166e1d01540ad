"""Prints each row of a table, read by pypaimon, as a JSON list. Runs in pypaimon's own environment."""

import json
import sys

from pypaimon import CatalogFactory

warehouse, name = sys.argv[1:]
table = CatalogFactory.create({"warehouse": warehouse}).get_table(name)
builder = table.new_read_builder()
rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
for row in rows.to_pylist():
    values = [v if v is None or isinstance(v, (bool, int, str)) else str(v) for v in row.values()]
    print(json.dumps(values))
