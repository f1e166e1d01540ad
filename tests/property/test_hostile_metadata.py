"""Whatever the metadata of a table say, nothing outside of its directory is read, written or deleted, and what is not
right is an error of lakelog's.

Each case is one text field of one metadata file (or one file that is a link) with one hostile value, and one operation.
A run tries some kinds of fields, each with a part of the operations; at night, others each time with all operations.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_world import SECRET, SHAPES, TABLE, Field, all_fields, links, make_world, values_for, write

from depth import Depth
from lakelog import connect
from lakelog.errors import InternalError, LakelogError
from lakelog.filestore.metadata.manifests import MANIFEST_CACHE
from lakelog.io.storage.local import LocalFileIO
from lakelog.service.dashboard.previews.grid import RowsRequest, SystemRequest
from lakelog.service.dashboard.previews.reads import read_grid
from lakelog.service.dashboard.views import history_grid, table_page
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.service.row_files import export_rows
from lakelog.table.health.actions import KINDS
from lakelog.table.system import SYSTEM_TABLES

_FIELDS = 18
_A_LINK = "a link to outside/linked"
_ENDS = ("delete", "delete_dir", "delete_empty_dir")

Operation = Callable[[Any, Any], Any]


def _rows(reader: Any) -> Any:
    return [batch.to_pylist() for batch in reader]


def _export(lake: Any, table: Any) -> Any:
    with tempfile.TemporaryDirectory(prefix="lakelog-export-") as place:
        return export_rows(table.scan(), Path(place) / "rows.parquet", {})


def _optimize(kind: str) -> Operation:
    return lambda lake, table: run_action(table.logical, kind, RunContext(lambda: False))


_READS: dict[str, Operation] = {
    "scan": lambda lake, table: table.scan().to_arrow().to_pylist(),
    "filter": lambda lake, table: table.scan(filter="v = 'v3'").to_arrow().to_pylist(),
    "union": lambda lake, table: table.scan(options={"read.mode": "union"}).to_arrow().to_pylist(),
    "tag": lambda lake, table: table.scan(tag="kept").to_arrow().to_pylist(),
    "branch": lambda lake, table: table.branch("side").scan().to_arrow().to_pylist(),
    "past": lambda lake, table: table.scan(snapshot_id=table.latest_snapshot().id - 1).to_arrow().to_pylist(),
    "changes": lambda lake, table: table.scan(incremental_between=(5, 8)).to_arrow().to_pylist(),
    "tail": lambda lake, table: _rows(table.tail("earliest", stop="latest")),
    "transactional tail": lambda lake, table: _rows(
        table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    ),
    "stream of files": lambda lake, table: [
        plan for plan, _ in zip(table.stream_plan(from_snapshot=5), range(4), strict=False)
    ],
    "page": lambda lake, table: table_page(table, table.health()),
    "rows": lambda lake, table: read_grid(lake, RowsRequest("d.t", 50)),
    "history": lambda lake, table: history_grid(table, None, 50),
    "files": lambda lake, table: read_grid(lake, SystemRequest("d.t", "files", 50)),
    "statistics": lambda lake, table: (table.statistics(), table.describe(extended=True)),
    "export": _export,
    **{
        f"${name}": lambda lake, table, n=name: lake.table(f"d.t${n}").scan().to_arrow().to_pylist()
        for name in SYSTEM_TABLES
    },
}
_ENDING: dict[str, Operation] = {
    "truncate": lambda lake, table: table.truncate(),
    "expire": lambda lake, table: table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s"),
    "clean": lambda lake, table: table.remove_orphan_files(older_than="0 s"),
    "drop": lambda lake, table: lake.run("drop table d.t"),
}
_BACK: dict[str, Operation] = {
    "make tag": lambda lake, table: table.create_tag("made"),
    "make branch": lambda lake, table: table.create_branch("made", tag="made"),
    "delete tag": lambda lake, table: table.delete_tag("kept"),
    "forward": lambda lake, table: table.fast_forward("side", files_only=True),
    "delete branch": lambda lake, table: table.delete_branch("side"),
    "consumers": lambda lake, table: (
        list(table.logical.store.consumers.list()),
        table.logical.store.consumers.delete("reader"),
    ),
    "roll back": lambda lake, table: table.rollback_to(snapshot_id=table.latest_snapshot().id - 2, files_only=True),
    "clean": lambda lake, table: table.remove_orphan_files(older_than="0 s"),
}
_CARE: dict[str, Operation] = {
    "write": lambda lake, table: write(table, [100, 101], "more"),
    "seal": lambda lake, table: table.seal(),
    "compact": lambda lake, table: table.compact(full=True),
    "compact manifests": lambda lake, table: table.compact_manifests(),
    "analyze": lambda lake, table: table.analyze(),
    **{f"optimize: {kind}": _optimize(kind) for kind in KINDS},
    "alter": lambda lake, table: lake.run("alter table d.t add column w int"),
    "drop partition": lambda lake, table: table.drop_partitions([{"p": "a"}]),
    "overwrite": lambda lake, table: lake.run("truncate table d.t partition (p = 'b')"),
    "expire": lambda lake, table: table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s"),
}
_ROUNDS = (_READS, _ENDING, _BACK, _CARE)


class Watch:
    """Remembers every path outside of the table that the storage or the process touches."""

    def __init__(self) -> None:
        self.base: Path | None = None
        self.escapes: list[str] = []

    def storage(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Records what goes through the local storage, Arrow's own reads included."""
        for name in ("read", "open_input", "write", "create", "open_output", "size", "list", "makedirs", *_ENDS):
            inner = getattr(LocalFileIO, name)

            def recorded(io: LocalFileIO, path: str, *given: Any, _inner: Any = inner, _name: str = name) -> Any:
                self.saw(_name, path)
                return _inner(io, path, *given)

            monkeypatch.setattr(LocalFileIO, name, recorded)

    def saw(self, what: str, path: str) -> None:
        """Notes a path that is not the table's."""
        if self.base is None:
            return
        plain = os.path.abspath(str(path).removeprefix("file://"))
        directory, name = os.path.split(plain)
        real = os.path.join(os.path.realpath(directory), name) if what in _ENDS else os.path.realpath(plain)
        table = str(self.base / TABLE)
        if real == table or real.startswith(table + "/"):
            return
        if real.startswith(str(self.base / "wh/d.db/.dropped-")):  # the table itself, which DROP has moved
            return
        is_catalog = real in (str(self.base / "wh"), str(self.base / "wh/d.db")) or what == "clean"
        siblings = [str(self.base / "wh/d.db" / name / "schema") for name in ("other", "outside")]
        if is_catalog or (what == "list" and real in siblings) or not real.startswith(str(self.base.parent)):
            return
        self.escapes.append(f"{what} {path}")


_WATCH = Watch()


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if _WATCH.base is not None and event in (
        "open",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.mkdir",
        "sqlite3.connect",
    ):
        for path in given[:2] if event == "os.rename" else given[:1]:
            if isinstance(path, str | bytes):
                _WATCH.saw("delete" if event in ("os.remove", "os.rmdir", "os.rename") else "open", os.fsdecode(path))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """The watch over the storage and over the process."""
    if not getattr(sys, "_lakelog_audit", False):
        sys.addaudithook(_audit)
        sys._lakelog_audit = True  # type: ignore[attr-defined]
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the world lasts for a second
    _WATCH.storage(monkeypatch)
    yield _WATCH
    _WATCH.base = None


def _outside(base: Path) -> dict[str, tuple[bytes, int]]:
    """All that is not the table's: bytes and time of change."""
    table = base / TABLE
    return {
        str(path): (path.read_bytes(), path.lstat().st_mtime_ns)
        for path in sorted(base.rglob("*"))
        if path.is_file() and table not in path.parents and "other" not in path.parts
    }


def _picked(base: Path, depth: Depth) -> list[tuple[Field, str]]:
    """The fields and values of this run: any of them at night, else some kinds of fields with one of their values."""
    fields = list(all_fields(base))
    if depth.is_exhaustive:
        every = [(field, value) for field in fields for value in values_for(field.label)]
        every += [(link, _A_LINK) for link in links(base)]
        return random.sample(every, min(len(every), depth.cases(_FIELDS)))
    by_label = {field.label: field for field in fields}
    telling = [label for label in by_label if any(sign in label for sign in _TELLING)]
    rest = sorted(set(by_label) - set(telling))
    random.Random(depth.seed).shuffle(rest)
    picked = [*telling, *rest][: depth.cases(_FIELDS)]
    out = [(by_label[label], list(values_for(label))[at % 2]) for at, label in enumerate(picked)]
    out += [(link, _A_LINK) for link in depth.some([at for at in links(base) if at.label.startswith(_LINKED)])]
    random.Random(depth.seed).shuffle(out)  # each kind meets each kind of operation
    return out


_TELLING = ("ManifestList", "_FILE_NAME", "_EXTRA", "_EXTERNAL", "path-directory", "prefix", "address", "statistics",
            "file_name", "writer", "LATEST")  # fmt: skip
_LINKED = ("p=a (", "manifest (", "snapshot (", "schema (", "lakelog/log", "tag/")


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_outside_of_a_table_is_touched(
    shape: str, tmp_path: Path, watch: Watch, monkeypatch: Any, depth: Depth
) -> None:
    origin = make_world(tmp_path / "origin", shape, monkeypatch)
    outcomes: Counter[str] = Counter()
    cases = 0
    for number, (field, value) in enumerate(_picked(origin, depth)):
        rounds = enumerate(_ROUNDS) if depth.is_exhaustive else [(number % 4, _ROUNDS[number % 4])]
        for part, operations in rounds:
            base = tmp_path / f"{number}-{part}"
            shutil.copytree(origin, base, symlinks=True)
            field.put(base, value.replace("{base}", str(base)))
            before = _outside(base)
            watch.escapes.clear()
            for name, operation in operations.items():
                cases += 1
                MANIFEST_CACHE.clear()
                watch.base = base
                try:
                    found = _tried(base, operation)
                finally:
                    watch.base = None
                outcomes[found.partition(":")[0]] += 1
                case = f"{shape}: {field.label} = {value!r}, {name}"
                assert not watch.escapes, f"{case} touched {watch.escapes} ({found[:300]})"
                assert SECRET not in found, f"{case} shows what is outside: {found[:300]}"
            assert _outside(base) == before, f"{shape}: {field.label} = {value!r}, one of {', '.join(operations)}"
            shutil.rmtree(base)
    print(f"\n{shape}: {cases} cases of hostile metadata, 0 escapes; {dict(outcomes.most_common())}")


def _tried(base: Path, operation: Operation) -> str:
    """What came of an operation, as text: its result, or an error of lakelog's. Anything else fails the test."""
    try:
        with connect(warehouse=str(base / "wh")) as lake:
            return f"done: {operation(lake, lake.table('d.t'))!r}"
    except InternalError:
        raise
    except LakelogError as why:
        return f"{type(why).__name__}: {why}"
