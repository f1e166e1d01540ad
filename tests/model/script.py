"""The script of a history: Python that imports lakelog alone, which the runner itself executes line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable

HEADER = """import datetime, gc, glob, os, tempfile, time
from decimal import Decimal
os.environ |= {"JAVA_HOME": "/nonexistent", "TZ": "America/New_York"}  # no Spark
time.tzset()
import lakelog, polars as pl, pyarrow as pa
nan, inf = float("nan"), float("inf")
place = tempfile.mkdtemp()
lake = lakelog.connect(place)
"""
HELPERS = '''
def plain(value):
    """A value that can be compared."""
    if isinstance(value, float): return "NaN" if value != value else value
    if isinstance(value, datetime.datetime) and value.tzinfo: return value.astimezone(datetime.timezone.utc)
    if isinstance(value, dict): return tuple((name, plain(one)) for name, one in value.items())
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value

def rows(found):
    """Rows in a fixed order."""
    found = found.to_arrow() if hasattr(found, "to_arrow") else found.toArrow() if hasattr(found, "toArrow") else found
    columns = [column.to_pylist() for column in found.columns]
    return sorted((tuple(plain(c[at]) for c in columns) for at in range(found.num_rows)), key=repr)

def migrated(table):
    """The rows, as ``lakelog migrate`` takes them from files of Hive."""
    import pyarrow.parquet as pq
    from lakelog.service.migration import SOURCES
    from lakelog.service.migration.migration import plan_migration, run_migration
    os.makedirs(f"{place}/files", exist_ok=True)
    pq.write_table(table, f"{place}/files/a.parquet", use_deprecated_int96_timestamps=True)
    source = SOURCES.create("parquet", lake, f"{place}/files")
    run_migration(lake, source, plan_migration(lake, source, "db.migrated"))
    try: return rows(lake.table("db.migrated").scan())
    finally: lake.drop_table("db.migrated")

class Fold:
    """What a reader of the log has, of the rows that it has seen so far; those that it owes were deleted too early."""
    def __init__(self, t, start="earliest", **options):
        self.held, self.owed, self.position, self.options = [], [], start, options
    def catch_up(self, t):
        tail = t.tail(self.position, stop="latest", options=self.options)
        keys = t.primary_keys
        for batch in tail:
            for row in batch.to_pylist():
                kind = row.pop("_row_kind")
                row = {name: plain(value) for name, value in row.items()}
                if keys:
                    self.held = [one for one in self.held if any(one[k] != row[k] for k in keys)]
                before, after = (self.held, self.owed) if kind[0] == "-" else (self.owed, self.held)
                if row in before: before.remove(row)
                elif kind[0] == "+" or not keys: after.append(row)
            assert not (self.owed and self.options), f"the committed changes delete what is not there: {self.owed}"
        assert not self.owed, f"the changes delete what is not there: {self.owed}"
        self.position = tail.position
        return sorted((tuple(row.values()) for row in self.held), key=repr)
'''
VIEW = '''
class View:
    """Materialized views of the table that last as long as its columns; each is refreshed, not made again."""
    def __init__(self): self.names, self.made, self.number = {}, [], 0
    def rows(self, lake, t, columns):
        listed = ", ".join(f"`{name}`" for name in columns)
        if t.primary_keys: query = f"select {listed} from db.t"
        else: query = f"select {listed}, count(*) as copies from db.t group by {listed}"
        schema = str([(field.name, field.type) for field in t.definition.fields if field.name in columns])
        if (known := self.names.get(query)) and known[1] != schema:  # a column has another type
            lake.sql(f"drop materialized view db.{known[0]}")
            self.made.remove(known[0])
            known = None
        if known is None:
            self.number += 1
            known = f"view_{self.number}", schema
            lake.sql(f"create materialized view db.{known[0]} with ('log-store.enabled' = 'false') as {query}")
            self.names[query] = known
            self.made.append(known[0])
        elif len(self.made) % 2: lake.views.refresh(f"db.{known[0]}")
        else: lake.sql(f"refresh materialized view db.{known[0]}")
        assert f"db.{known[0]}" in lake.views.list()
        (of_source,) = lake.table(f"db.{known[0]}$view").scan(["source", "state", "lag_ms"]).to_arrow().to_pylist()
        assert of_source == {"source": "db.t", "state": "current", "lag_ms": 0}, of_source
        found = lake.table(f"db.{known[0]}").scan([*columns] if t.primary_keys else [*columns, "copies"])
        if t.primary_keys: return rows(found)
        return sorted((row[:-1] for row in rows(found) for _ in range(row[-1])), key=repr)
viewed = View()
'''
PIPE = '''
class Pipe:
    """A pipe into a table with the same rows; it goes on while the columns last."""
    def __init__(self): self.number, self.schema = 0, None
    def rows(self, lake, t, columns):
        schema = str([(field.name, field.type) for field in t.definition.fields if field.name in columns])
        if schema != self.schema:
            self.number, self.schema = self.number + 1, schema
            lake.create_table(f"db.piped_{self.number}", t.scan(columns).schema, primary_key=t.primary_keys or None)
        target = lake.table(f"db.piped_{self.number}")
        list(t.pipe(lambda rows: rows.select([*columns, "_row_kind"]), target, stop="latest"))
        return rows(lake.table(target.name))
piped = Pipe()
'''
CLOCK = '''
_now, _ahead = time.time_ns, 0.0
def clock(days):
    """The clock of this machine is so many days ahead."""
    global _ahead
    _ahead = days
    time.time_ns = lambda: _now() + int(_ahead * 86_400_000_000_000)

def later(days):
    """So many days pass, for the leases on the disk, too."""
    clock(_ahead + days)
    for kind in ("staged/*/lease", "publish/*", "compact/*", "overwrite/*", "optimizer/*"):
        for lease in glob.glob(f"{place}/**/lakelog/{kind}", recursive=True): os.utime(lease, (0, 0))
'''
OPTIMIZE = '''
def optimize(t):
    """All that `lakelog optimize` may do for a table."""
    from lakelog.service.optimizer.runner import RunContext, run_action
    for need in t.health().needs:
        run = run_action(t.logical, need.kind, RunContext(lambda: False))
        assert run.outcome != "failed", f"{need.kind}: {run.detail}"
'''
STREAM = '''
def stream(t, rows):
    """A streaming job commits an epoch, and leaves its snapshot to others."""
    from lakelog.table.commit.committer import Committer
    from lakelog.table.log.register import register_writer
    from lakelog.table.rejected.rows import Rejects
    from lakelog.table.staging.task_writer import TaskWriter
    name = f"stream-{time.monotonic_ns()}"
    register_writer(t.logical, name)
    task = TaskWriter(t.logical, name, 0, 0, rejects=Rejects.of(t.logical, name, 0, 0))
    try:
        for batch in rows.to_batches(): task.write(batch)
    except lakelog.errors.LakelogError:
        task.close()
        raise
    Committer(t.logical, name).commit(0, [task.finish()])
'''
FAILING = '''
import contextlib
from lakelog.io.storage.local import LocalFileIO
class Died(BaseException): pass

@contextlib.contextmanager
def failing(number, kind):
    """Call so many of this storage fails before it has happened, or after it; or the process dies in it."""
    calls, own = [], {name: getattr(LocalFileIO, name) for name in ("write", "create", "open_output", "delete")}
    def around(name):
        def call(self, path, *more):
            calls.append(name)
            if kind == "dies" and len(calls) >= number: raise Died
            if len(calls) == number and kind == "before": raise lakelog.errors.Unavailable(f"{name} {path} failed")
            done = own[name](self, path, *more)
            if len(calls) == number: raise lakelog.errors.Unavailable(f"{name} {path} failed afterwards")
            return done
        return call
    for name in own: setattr(LocalFileIO, name, around(name))
    try:
        yield
    except (Died, lakelog.errors.Unavailable, lakelog.errors.CommitUnknown, lakelog.errors.CommitDecided):
        pass
    finally:
        for name, method in own.items(): setattr(LocalFileIO, name, method)
        globals().pop("w", None)  # a dead process renews no lease
        gc.collect()
'''
MEANWHILE = '''
import contextlib, threading
from lakelog.io.storage.local import LocalFileIO

@contextlib.contextmanager
def meanwhile(number, code, names):
    """Another process runs the code while call so many of this storage waits; one of both may be refused."""
    calls, own = [], {name: getattr(LocalFileIO, name) for name in ("read", "write", "create", "open_output", "delete")}
    def run():
        other = dict(names, lake=lakelog.connect(place))
        other["t"] = other["lake"].table("db.t")
        try: exec(code, other)
        except lakelog.errors.LakelogError: pass
        finally: other["lake"].close()
    thread = threading.Thread(target=run)
    def around(name):
        def call(self, path, *more):
            calls.append(name)
            if len(calls) == number:
                thread.start()
                thread.join(1)
            return own[name](self, path, *more)
        return call
    for name in own: setattr(LocalFileIO, name, around(name))
    try:
        yield
    except lakelog.errors.LakelogError:
        pass
    finally:
        for name, method in own.items(): setattr(LocalFileIO, name, method)
        if not thread.ident: thread.start()
        thread.join()
'''
MADE = 'lake.sql("create database db")\nlake.sql({create!r})\nt = lake.table("db.t")\n'


def script(create: str, steps: Iterable[str], last: str) -> str:
    """The whole script of a history whose last line shows what is wrong. A snapshot has a name only if it is used."""
    body = "\n".join([*steps, last])
    for name in set(re.findall(r"\bs\d+\b", body)):
        if len(re.findall(rf"\b{name}\b", body)) == 1:
            body = re.sub(rf"(; |\n){name} = t.latest_snapshot\(\).id", "", body)
    needed = HEADER
    for words, text in (
        ("rows(|Fold(|migrated(", HELPERS),
        ("viewed.", VIEW),
        ("piped.", PIPE),
        ("clock(|later(", CLOCK),
        ("optimize(", OPTIMIZE),
        ("stream(", STREAM),
        ("failing(", FAILING),
        ("meanwhile(", MEANWHILE),
    ):
        if any(word in body for word in words.split("|")):
            needed += text
    return needed + "\n" + MADE.format(create=create) + body + "\n"
