"""Small tables of each released version, with the rows that it read: ``python -m versions.golden 0.1.0`` writes those.

A released version never writes them again. ``tests/golden/versions/<version>/<kind>/`` is a warehouse, and
``expected.json`` has its rows.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Final

from versions.kinds import KINDS, has_log, rows_of
from versions.old_version import OLD_VERSION, ROOT, Version, old_python

GOLDEN: Final = ROOT / "tests/golden/versions"
CHOSEN: Final = (
    "key", "key, deletion vectors", "key, aggregation", "key, embedded log",
    "key, log in files", "no key", "no key, embedded log", "no key, log in files",
)  # fmt: skip


def folder(kind: str) -> str:
    """The name of the folder of a kind."""
    return kind.replace(", ", "-").replace(" ", "-")


def unbind(place: Path) -> None:
    """Takes the machine out of a warehouse, which an embedded log is bound to, and what processes have left."""
    for schema in place.glob("*/*/schema/schema-*"):
        schema.write_text(re.sub(r'("lakelog.log-machine": )"[^"]*"', r'\1""', schema.read_text()))
    for log in place.glob("*/*/lakelog/log.sqlite"):
        database = sqlite3.connect(log)
        database.execute("update meta set value = '' where key = 'machine'")
        database.commit()
        database.execute("pragma journal_mode = delete")
        database.execute("vacuum")
        database.close()
    for staged in place.glob("*/*/lakelog/staged"):
        shutil.rmtree(staged)


def main() -> None:
    """Writes the tables of a version: that before this one, or this one."""
    name = sys.argv[1]
    version = Version.start(old_python() if name == OLD_VERSION else sys.executable)
    if version.version != name:
        raise SystemExit(f"version {name} is not at hand: there are {OLD_VERSION} and this one")
    for kind in CHOSEN:
        columns, options = KINDS[kind]
        place = GOLDEN / name / folder(kind)
        shutil.rmtree(place, ignore_errors=True)
        version.warehouse = str(place)
        try:
            version("create", columns, {**options, "bucket": "1"} if "bucket" in options else options)
            for step in (1, 2):
                version("write", rows_of(columns, step))
            version("compact")
            version("write", rows_of(columns, 3))
            version("expire")
            expected = {"read": version("read"), "fold": version("fold") if has_log(options) else None}
        except Exception as why:  # a kind that this version does not have
            sys.stderr.write(f"{kind}: {why}\n")
            shutil.rmtree(place, ignore_errors=True)
            continue
        unbind(place)
        (place / "expected.json").write_text(json.dumps({"kind": kind, **expected}, indent=1) + "\n")
    version.close()


def warehouses() -> list[Path]:
    """The golden warehouses of all versions."""
    return sorted(path.parent for path in GOLDEN.glob("*/*/expected.json"))


if __name__ == "__main__":
    main()
