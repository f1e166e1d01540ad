"""What Paimon reads of one of its tables in every view, as lines in the form of the golden files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paimon_java import PaimonJava
from py4j.protocol import Py4JError

SYSTEM = ("snapshots", "schemas", "options", "manifests", "files", "partitions", "buckets", "tags", "branches",
          "consumers", "aggregation_fields", "statistics", "table_indexes")  # fmt: skip
ORDERED = ("sys:snapshots", "sys:schemas")


def write_expected(paimon: PaimonJava, directory: Path, name: str, streams: bool = True) -> None:
    """Reads the table ``<directory>/<name>/g.db/<name>`` in every view; writes ``<name>.expected.jsonl``."""
    lines = [json.dumps(line, ensure_ascii=False) for line in views(paimon, directory, name, streams)]
    (directory / f"{name}.expected.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def views(paimon: PaimonJava, directory: Path, name: str, streams: bool = True) -> list[dict[str, Any]]:
    """The lines of all views."""
    warehouse = str(directory / name)
    out: list[dict[str, Any]] = []
    table = directory / name / "g.db" / name

    def add(view: str, of: str, options: dict[str, str] | None = None) -> None:
        try:
            found = paimon.kinds_and_rows(warehouse, "g", of, options)
        except Py4JError as why:
            out.append({"view": view, "refused": str(why)[:200]})
            return
        fields = paimon.names(warehouse, "g", of, options)
        made = [_line(view, kind, dict(zip(fields, values, strict=True)), directory) for kind, values in found]
        out.append({"view": view, "count": len(made)})
        out.extend(made if view in ORDERED else sorted(made, key=json.dumps))

    ids = sorted(int(p.name.removeprefix("snapshot-")) for p in (table / "snapshot").glob("snapshot-*"))
    add("scan", name)
    add("audit_log", f"{name}$audit_log")
    add("binlog", f"{name}$binlog")
    add("ro", f"{name}$ro")
    for snapshot in ids:
        add(f"snapshot:{snapshot}", name, {"scan.snapshot-id": str(snapshot)})
    for kind in SYSTEM:
        add(f"sys:{kind}", f"{name}${kind}")
    for tag in sorted((table / "tag").glob("tag-*")):
        add(f"tag:{tag.name[4:]}", name, {"scan.tag-name": tag.name[4:]})
    for branch in sorted((table / "branch").glob("branch-*")):
        add(f"branch:{branch.name[7:]}", f"{name}$branch_{branch.name[7:]}")
    if len(ids) > 1:
        add(f"incremental:{ids[0]}-{ids[-1]}", name, {"incremental-between": f"{ids[0]},{ids[-1]}"})
    if streams and ids:
        _add_stream(paimon, directory, name, ids[0], out)
    return out


def _add_stream(paimon: PaimonJava, directory: Path, name: str, start: int, out: list[dict[str, Any]]) -> None:
    warehouse, view = str(directory / name), f"stream-from-{start}"
    fields = paimon.names(warehouse, "g", name)
    try:
        found = paimon.stream(warehouse, "g", name, start)
    except Py4JError as why:
        out.append({"view": view, "refused": str(why)[:200]})
        return
    for following, kind, values in found:
        row = dict(zip(fields, values, strict=True))
        out.append({"view": view, "next": following, "kind": kind, "row": row})
    out.append({"view": view, "count": len(found)})


def _line(view: str, kind: str, row: dict[str, Any], directory: Path) -> dict[str, Any]:
    line: dict[str, Any] = {"view": view}
    if kind != "+I":
        line["kind"] = kind
    line["row"] = {k: _relative(v, directory) for k, v in row.items()}
    return line


def _relative(value: Any, directory: Path) -> Any:
    return value.removeprefix("file:").removeprefix(f"{directory}/") if isinstance(value, str) else value
