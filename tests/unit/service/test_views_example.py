"""The three commands of ``examples/views`` run beside each other, and the aggregates are those of the raw flights."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import polars as pl

import lakelog
from secrets_in_files import leaked

HERE = Path(__file__).parents[3] / "examples" / "views"


@contextmanager
def running(script: str, warehouse: Path) -> Iterator[subprocess.Popen[str]]:
    """A command of the example, ended by Ctrl-C; its end must be in order."""
    command = [sys.executable, "-u", str(HERE / script), str(warehouse)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        try:
            yield started
            started.send_signal(signal.SIGINT)
            assert started.stdout is not None
            rest = started.stdout.read()
            assert started.wait(120) == 0, rest
        finally:
            started.kill()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"no line has '{words}': {''.join(seen)}")


def test_raw_flights_reach_the_aggregates(tmp_path: Path) -> None:
    with ExitStack() as services:
        load = services.enter_context(running("load.py", tmp_path))
        read_until(load, "60 changes of flights written")
        views = services.enter_context(running("run.py", tmp_path))
        read_until(views, "keeping dwd.flights, dws.carrier_days fresh")
        read_until(views, "dws.carrier_days: ")
        watch = services.enter_context(running("watch.py", tmp_path))
        assert " departed, " in read_until(watch, "+I 2013-01-01")
        read_until(watch, "commits behind dwd.flights")
    with lakelog.connect(str(tmp_path)) as lake:
        for view in ("dwd.flights", "dws.carrier_days"):
            lake.views.refresh(view)
            assert {row["state"] for row in lake.table(f"{view}$view").scan().to_arrow().to_pylist()} == {"current"}
        flights = lake.table("ods.flights").scan().to_polars().filter(pl.col("status") != "scheduled")
        names = dict(lake.table("ods.airlines").scan(["carrier", "name"]).to_polars().iter_rows())
        expected = {
            (carrier, names[carrier], len(rows), rows["arrived"].count(), (rows["dep_delay"] > 15).sum())
            for (carrier, _), rows in flights.group_by("carrier", pl.col("scheduled").dt.date())
        }
        columns = ["carrier", "airline", "departed", "arrived", "late"]
        assert set(lake.table("dws.carrier_days").scan(columns).to_polars().iter_rows()) == expected
        assert len(expected) > 0
    assert leaked(tmp_path) == []
