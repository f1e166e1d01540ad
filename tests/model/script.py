"""The script of a history: Python that imports lakelog alone, which the runner itself executes line by line."""

from __future__ import annotations

from collections.abc import Iterable

HEADER = '''import datetime, os, tempfile, time
from decimal import Decimal
os.environ["JAVA_HOME"] = "/nonexistent"  # no Spark
import lakelog, pyarrow as pa
nan, inf = float("nan"), float("inf")
lake = lakelog.connect(tempfile.mkdtemp())
'''
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

class Fold:
    """What a reader of the log has, of the rows that it has seen so far."""
    def __init__(self, t, start="earliest", **options):
        self.held, self.position, self.options = [], start, options
    def catch_up(self, t):
        tail = t.tail(self.position, stop="latest", options=self.options)
        keys = t.primary_keys
        for batch in tail:
            for row in batch.to_pylist():
                kind = row.pop("_row_kind")
                row = {name: plain(value) for name, value in row.items()}
                if keys:
                    self.held = [one for one in self.held if any(one[k] != row[k] for k in keys)]
                elif kind[0] == "-":
                    self.held.remove(row)
                if kind[0] == "+": self.held.append(row)
        self.position = tail.position
        return sorted((tuple(row.values()) for row in self.held), key=repr)
'''
CLOCK = '''
_now = time.time_ns
def clock(days):
    """The clock of this machine is so many days ahead."""
    time.time_ns = lambda: _now() + int(days * 86_400_000_000_000)
'''
MADE = 'lake.sql("create database db")\nlake.sql({create!r})\nt = lake.table("db.t")\n'


def script(create: str, steps: Iterable[str], last: str) -> str:
    """The whole script of a history whose last line shows what is wrong."""
    body = "\n".join([*steps, last])
    needed = HEADER
    if any(word in body for word in ("rows(", "Fold(")):
        needed += HELPERS
    if "clock(" in body:
        needed += CLOCK
    return needed + "\n" + MADE.format(create=create) + body
