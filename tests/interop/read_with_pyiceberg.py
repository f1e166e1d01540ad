"""Reads tables by their Iceberg metadata with pyiceberg, in a Python of its own: a JSON request a line, an answer each.

A request has ``table`` (its directory), and perhaps ``snapshot``, ``tag`` and ``filter``; the rows go to the Arrow file
``out``. The answer has the snapshots, the tags and the number of planned files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable


def answer(request: dict[str, Any]) -> dict[str, Any]:
    table = StaticTable.from_metadata(request["table"])
    snapshot = request.get("snapshot")
    if "tag" in request:
        snapshot = table.metadata.refs[request["tag"]].snapshot_id
    scan = table.scan(row_filter=request.get("filter") or AlwaysTrue(), snapshot_id=snapshot)
    rows = scan.to_arrow()
    with pa.OSFile(request["out"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    tags = {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"}
    return {
        "current": table.metadata.current_snapshot_id,
        "snapshots": [s.snapshot_id for s in table.metadata.snapshots],
        "tags": tags,
        "files": len(list(scan.plan_files())),
        "uuid": str(table.metadata.table_uuid),
    }


def main() -> None:
    for line in sys.stdin:
        try:
            found: dict[str, Any] = answer(json.loads(line))
        except Exception as why:
            found = {"error": f"{type(why).__name__}: {why}"}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    assert Path(__file__).name
    main()
