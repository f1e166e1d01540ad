"""Drawn histories of a table with vectors: Iceberg snapshots have the rows of scans, and rows keep their numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from depth import Depth
from iceberg_reader import IcebergReader
from iceberg_tables import make, numbers, open_lake, plain, write
from iceberg_vector_tables import ON, WIDE, delete_keys, delete_rows
from lakelog.filestore.iceberg.export import IcebergExport
from lakelog.lake.table import Table

STEPS = 10
SEEDS = 30
KEYS = 200


class History:
    """A table that changes by chance, and the numbers of its rows so far by data file."""

    def __init__(self, place: Path, keyed: bool, chance: random.Random) -> None:
        self.lake = open_lake(place)
        key = ", primary key (id)" if keyed else ""
        options = f"{ON}, 'bucket' = '{2 if keyed else -1}', 'manifest.merge-min-count' = '3'"
        self.table: Table = make(self.lake, f"id int, name string{key}", options=options)
        self.keyed, self.chance = keyed, chance
        self.numbers: dict[str, range] = {}
        self.used: set[tuple[int, int, str]] = set()
        write(self.table, *numbers(0, KEYS))

    def step(self) -> str:
        acts: dict[str, Callable[[], object]] = {
            "write": self.write,
            "write again": self.write,
            "delete": self.delete,
            "delete again": self.delete,
            "compact": lambda: self.table.compact(full=self.chance.random() < 0.3),
            "overwrite": lambda: write(self.table, *numbers(0, KEYS // 2), overwrite=True),
            "tag": self.tag,
            "forget a tag": self.forget,
            "roll back": self.roll_back,
            "expire": lambda: self.table.expire_snapshots(retain_max=self.chance.randint(1, 4)),
            "wide": self.wide,
            "fail": self.fail,
        }
        name = self.chance.choice(list(acts))
        acts[name]()
        return name

    def write(self) -> None:
        first = self.chance.randrange(KEYS)
        write(self.table, *[{**row, "name": str(self.chance.random())} for row in numbers(first, 8)])
        if self.keyed and self.chance.random() < 0.7:
            self.table.compact(full=False)

    def delete(self) -> None:
        found = self.chance.sample(range(KEYS), 6)
        if not self.keyed:
            delete_rows(self.table.logical, *found)
        else:
            delete_keys(self.table, *found)
            self.table.compact(full=False)

    def tag(self) -> None:
        newest = self.table.latest_snapshot()
        assert newest is not None
        self.table.create_tag(f"t{self.chance.random()}", self.chance.choice(self.table.logical.store.snapshots.ids()))

    def forget(self) -> None:
        for tag in list(self.table.tags())[:1]:
            self.table.delete_tag(tag.name)

    def roll_back(self) -> None:
        self.table.rollback_to(snapshot_id=self.chance.choice(self.table.logical.store.snapshots.ids()))

    def wide(self) -> None:
        self.lake.sql(f"alter table db.t set tblproperties ({WIDE})")
        self.table = self.lake.table("db.t")
        self.write()

    def fail(self) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(IcebergExport, "run", lambda export: None)
            for _ in range(self.chance.randint(1, 3)):
                self.delete()
        self.write()

    def check(self, steps: list[str], *, every: bool = False) -> None:
        store = self.table.logical.store
        reader = IcebergReader(store.io, store.table_path)
        newest = self.table.latest_snapshot()
        assert newest is not None
        assert reader.metadata["current-snapshot-id"] == newest.id == reader.version, steps
        tags = {tag.name: tag.snapshot.id for tag in self.table.tags() if tag.snapshot.id <= newest.id}
        assert reader.tags == tags, steps
        for at in reader.snapshots if every else (newest.id,):
            tag = next((name for name, n in tags.items() if n == at), None)
            scan = self.table.scan(tag=tag) if tag else self.table.scan(snapshot_id=at)
            assert plain(reader.rows(at)) == plain(scan.to_arrow().to_pylist()), (at, steps)
        self.check_numbers(reader, steps)
        directory = Path(self.table.path) / "metadata"
        found = {path.name for kind in ("avro", "puffin") for path in directory.glob(f"*.{kind}")}
        assert found == reader.named, steps

    def check_numbers(self, reader: IcebergReader, steps: list[str]) -> None:
        found = [item for at in reader.snapshots for item in reader.row_numbers(at).items()]
        # a file that a rollback removes, and that comes again later, has other numbers
        self.numbers = {name: rows for name, rows in self.numbers.items() if name in dict(found)}
        for name, rows in found:
            assert rows.stop <= reader.metadata["next-row-id"], steps
            assert self.numbers.setdefault(name, rows) == rows, steps
            self.used.add((rows.start, rows.stop, name))
        ordered = sorted(self.used)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered)), steps


@pytest.mark.parametrize("keyed", [False, True], ids=["without a key", "with a key"])
def test_each_snapshot_has_the_rows_of_a_scan(keyed: bool, depth: Depth, tmp_path: Path) -> None:
    for seed in depth.seeds(SEEDS):
        history = History(tmp_path / str(seed), keyed, random.Random(seed))
        steps = [f"seed {seed}"]
        for _ in range(STEPS):
            steps.append(history.step())
            history.check(steps)
        history.check(steps, every=True)
