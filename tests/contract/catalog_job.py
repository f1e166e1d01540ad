"""One of several processes that use a catalog at the same time.

usage: catalog_job.py NUMBER < JSON with "warehouse" and "options", then lines "STEP ROUND"; prints what became of each.
"""

from __future__ import annotations

import json
import sys

from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import AlreadyExists, NotFound
from lakelog.paimon.schema.changes import AddColumn
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import BIGINT, INT
from lakelog.table.open import open_catalog


def act(catalog: Catalog, step: str, number: int, at: str) -> None:
    table = Identifier(f"db{at}", "t")
    if step == "database":
        catalog.create_database(table.database)
    elif step == "create":
        catalog.create_table(table, new_schema([("id", BIGINT, None), (f"made_by_{number}", INT, None)]))
    elif step == "alter":
        catalog.alter_table(table, [AddColumn((f"c{number}",), INT)])
    elif step == "rename":
        catalog.rename_table(table, Identifier(table.database, f"t{number}"))
    elif step == "own":
        catalog.create_table(Identifier(table.database, f"own{number}"), new_schema([(f"of_{number}", INT, None)]))
    elif step == "merge":
        catalog.rename_table(Identifier(table.database, f"own{number}"), Identifier(table.database, "one"))
    else:
        catalog.drop_table(Identifier(table.database, "one"))


def main() -> None:
    number, given = int(sys.argv[1]), json.loads(sys.stdin.readline())
    catalog = open_catalog(given["warehouse"], None, given["options"])
    for line in sys.stdin:
        step, at = line.split()
        try:
            act(catalog, step, number, at)
            print("done", flush=True)
        except (AlreadyExists, NotFound) as lost:
            print(type(lost).__name__, flush=True)


if __name__ == "__main__":
    main()
