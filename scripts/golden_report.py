"""Reads every view of the golden tables and says which are as Paimon reads them: ``make golden``.

Usage: golden_report.py [directory of golden tables]. Exit code 1 unless all views are equal. ``tests/golden`` uses
the functions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import lakelog
from printed import printed, values

DATA = Path(__file__).parent.parent / "tests" / "golden" / "data"

# Taken from the file system, not from what Paimon wrote: a copy of the table has another.
_NOT_KEPT = {"sys:branches": ("create_time",)}
# Functions whose values are collections without an order.
_UNORDERED = ("collect", "merge_map", "merge_map_with_keytime")

Rows = dict[str, list[str]]


def table_names(data: Path = DATA) -> list[str]:
    """The golden tables of a directory."""
    return sorted(path.name.removesuffix(".expected.jsonl") for path in data.glob("*.expected.jsonl"))


def expected_views(name: str, data: Path = DATA) -> Rows:
    """View → its rows as text, in the order in which they count."""
    views: Rows = {}
    unordered = unordered_columns(name, data)
    for line in (data / f"{name}.expected.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if "refused" in found:
            continue
        rows = views.setdefault(found["view"], [])
        if "row" in found:
            row = _without_order(found["view"], found["row"], unordered)
            rows.append(_text(found["view"], row, found.get("kind", "+I"), found.get("next")))
    return {view: _ordered(view, rows) for view, rows in views.items()}


def unordered_columns(name: str, data: Path = DATA) -> frozenset[str]:
    """The columns of a table whose values are collections that an aggregate function makes in no order."""
    functions: dict[str, str] = {}
    for schema in (data / name / "g.db" / name).glob("**/schema/schema-*"):
        functions |= json.loads(schema.read_text(encoding="utf-8"))["options"]
    return frozenset(
        key.removeprefix("fields.").removesuffix(".aggregate-function")
        for key, value in functions.items()
        if key.endswith(".aggregate-function") and value in _UNORDERED
    )


def read_view(name: str, view: str, data: Path = DATA) -> list[str]:
    """The rows of a view as lakelog reads them, in the same form. Raises what lakelog raises."""
    with lakelog.connect(warehouse=str(data / name)) as lake:
        table = lake.table(f"g.{name}")
        kind, _, what = view.partition(":")
        if kind.startswith("stream-from-"):
            plans = table.stream_plan(from_snapshot=int(kind.removeprefix("stream-from-")))
            unordered = unordered_columns(name, data)
            return [text for plan in plans for text in _texts(view, plan.to_arrow(), data, unordered, plan.next)]
        if kind == "snapshot":
            rows = table.scan(snapshot_id=int(what)).to_arrow()
        elif kind == "tag":
            rows = table.scan(tag=what).to_arrow()
        elif kind == "incremental":
            begin, _, end = what.partition("-")
            rows = table.scan(incremental_between=(begin, end)).to_arrow()
        elif kind == "branch":
            rows = lake.table(f"g.{name}$branch_{what}").scan().to_arrow()
        else:
            suffix = {"scan": "", "sys": f"${what}"}.get(kind, f"${kind}")
            rows = lake.table(f"g.{name}{suffix}").scan().to_arrow()
        return _ordered(view, list(_texts(view, rows, data, unordered_columns(name, data))))


def _ordered(view: str, rows: list[str]) -> list[str]:
    return rows if view.startswith("stream") or view == "sys:snapshots" else sorted(rows)


def _texts(
    view: str, rows: pa.Table, data: Path, unordered: frozenset[str], next_snapshot: int | None = None
) -> Iterable[str]:
    kinds = rows.column("_row_kind").to_pylist() if "_row_kind" in rows.column_names else ["+I"] * rows.num_rows
    names = [n for n in rows.column_names if n != "_row_kind"]
    columns = [[printed(value) for value in values(rows.column(name))] for name in names]
    for at, kind in enumerate(kinds):
        row = {name: column[at] for name, column in zip(names, columns, strict=True)}
        if "file_path" in row:
            row["file_path"] = row["file_path"].removeprefix(f"{data}/")
        yield _text(view, _without_order(view, row, unordered), kind, next_snapshot)


def _text(view: str, row: dict[str, Any], kind: str, next_snapshot: int | None) -> str:
    kept = {key: value for key, value in row.items() if key not in _NOT_KEPT.get(view, ())}
    # a state has rows, not changes: whether one was inserted or updated does not count there
    counts = view.startswith(("stream", "incremental"))
    return json.dumps([next_snapshot, kind if counts else "+I", kept], ensure_ascii=False, sort_keys=True)


def _without_order(view: str, row: dict[str, Any], unordered: frozenset[str]) -> dict[str, Any]:
    """The row with the collections of some columns sorted; a binlog's columns are lists of such values, in order."""

    def sorted_value(value: Any) -> Any:
        return sorted(value, key=json.dumps) if isinstance(value, list) else value

    binlog = view == "binlog"
    return {
        key: value if key not in unordered else [sorted_value(v) for v in value] if binlog else sorted_value(value)
        for key, value in row.items()
    }


def outcome(name: str, view: str, expected: list[str], data: Path) -> tuple[str, str]:
    """(short mark, what is wrong) of one view."""
    try:
        found = read_view(name, view, data)
    except Exception as refusal:
        return type(refusal).__name__, str(refusal).partition("\n")[0]
    if found == expected:
        return "equal", ""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    return "different", f"missing {missing[:1]} extra {extra[:1]}" if missing or extra else "another order or number"


def main(data: Path) -> int:
    """Prints a row of views for each table, then what is wrong."""
    names, problems, views_seen = table_names(data), [], 0
    if not names:
        _say(f"no golden tables in {data}")
        return 1
    for name in names:
        cells: dict[str, list[str]] = {}
        for view, expected in expected_views(name, data).items():
            mark, why = outcome(name, view, expected, data)
            cells.setdefault(view.partition(":")[0] if view.startswith("snapshot:") else view, []).append(mark)
            views_seen += 1
            if mark != "equal":
                problems.append(f"{name} {view}: {mark}: {why}")
        _say(f"{name:20} " + "  ".join(f"{view}={_cell(marks)}" for view, marks in cells.items()))
    _say(f"{len(names)} tables, {views_seen} views, {views_seen - len(problems)} equal")
    for problem in problems:
        _say(f"  {problem}")
    return 1 if problems else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _cell(marks: list[str]) -> str:
    other = [mark for mark in marks if mark != "equal"]
    count = f" {len(marks) - len(other)}/{len(marks)}" if len(marks) > 1 else ""
    return (other[0] if other else "equal") + count


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DATA))
