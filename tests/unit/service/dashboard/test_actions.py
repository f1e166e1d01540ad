"""Maintenance that is started on a page: the role, what comes of it, and its audit line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from dashboards import PASSWORD, csrf_of, running_dashboard
from lakelog import connect
from lakelog.cli.setup.demo import progress_line
from lakelog.service.dashboard.views import overview
from lakelog.service.dashboard.watcher import Watcher
from lakelog.service.demo.check import DemoProgress
from lakelog.service.demo.process import DemoProcess


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that needs a compaction, and one that cannot be read."""
    place = tmp_path_factory.mktemp("actions")
    with connect(warehouse=str(place)) as lake:
        for name in ("t", "broken"):
            lake.sql(f"create table db.{name} (id bigint, primary key (id)) tblproperties ('bucket' = '1')")
        for number in range(6):
            lake.table("db.t").write(pa.table({"id": [number]}), options={"write-only": "true"})
    for path in (place / "db.db" / "broken" / "schema").iterdir():
        path.write_bytes(b"{")
    return place


def test_an_action_runs_from_the_page_of_its_table(warehouse: Path, users_file: Path) -> None:
    asked = {"table": "db.t", "kind": "compaction"}
    with running_dashboard(warehouse, users_file=users_file) as dashboard:
        with dashboard.log_in("wanda", PASSWORD) as wanda:
            page = wanda.get("/tables/db.t")
            assert "lakelog compact db.t --minor" in page.text
            assert "data-act" not in page.text  # her role may not
            refused = wanda.post("/api/v1/actions", json=asked, headers={"x-csrf-token": csrf_of(page)})
            assert refused.status_code == 403
        with dashboard.log_in("ada", PASSWORD) as ada:
            page = ada.get("/tables/db.t")
            assert 'data-kind="compaction"' in page.text
            own = {"x-csrf-token": csrf_of(page)}
            assert ada.post("/api/v1/actions", json=asked).status_code == 403
            assert ada.post("/api/v1/actions", json=asked | {"kind": "rm"}, headers=own).status_code == 400
            begun = ada.post("/api/v1/actions", json=asked, headers=own)
            assert begun.status_code == 202
            assert ada.post("/api/v1/actions", json=asked, headers=own).status_code == 409
            end = time.monotonic() + 120
            while (now := ada.get(f"/api/v1/actions/{begun.json()['id']}").json())["state"] == "running":
                assert time.monotonic() < end
                time.sleep(0.05)
            assert (now["state"], now["done"], now["total"]) == ("done", 1, 1)
            lines = [one for one in ada.get("/api/v1/terminal/audit").json() if one["kind"] == "action"]
            assert [(one["user"], one["text"], one["outcome"]) for one in lines] == [("ada", "compaction db.t", "done")]
            runs = ada.get("/api/v1/tables/db.t/runs").json()
            assert [(run["kind"], run["reason"]) for run in runs] == [("compaction", "started by ada on the dashboard")]


def test_every_table_that_is_counted_is_listed_and_the_worst_is_first(warehouse: Path) -> None:
    with running_dashboard(warehouse) as dashboard, dashboard.client() as client:
        end = time.monotonic() + 120
        while (all_ := client.get("/api/v1/tables").json())["looked"] < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert [(one["name"], one["score"]) for one in all_["tables"]][0] == ("db.broken", 0)
        assert [one["finding"]["kind"] for one in all_["findings"]] == ["unreadable"]
        optimizing = client.get("/api/v1/optimizing").json()
        listed = {one["table"] for one in (*optimizing["findings"], *optimizing["needs"])}
        assert all_["needing"] == len(listed)
        page = client.get("/tables/db.broken", headers={"accept": "text/html"})
        assert page.status_code == 200
        assert "the table cannot be read" in page.text


def test_a_demo_that_ends_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('error: a query of the demo failed'); sys.exit(1)"]
    demo = DemoProcess(str(tmp_path), command, tmp_path / "output.txt")
    assert demo._process.wait(120) == 1
    assert "a query of the demo failed" in demo.failure()
    assert demo.failure().endswith("run: lakelog doctor")

    class Empty:
        """A lake without catalogs."""

    watcher = Watcher(Empty(), Empty(), {"demo": demo.failure})  # type: ignore[arg-type]
    assert "code 1" in watcher.troubles()["demo"]


def test_a_demo_that_has_written_nothing_yet_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    demo = DemoProcess(str(tmp_path), command, tmp_path / "output.txt", slow_s=0.0)
    try:
        assert "written nothing" in demo.failure()
        (tmp_path / "d.db/t/snapshot").mkdir(parents=True)
        (tmp_path / "d.db/t/snapshot/snapshot-1").touch()
        assert not demo.failure()
    finally:
        demo.stop()


STAGES = (("starting Spark", 0.0), ("streaming", 10.0), ("streaming", 610.0))


def test_a_demo_reports_its_current_step_and_its_age(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    demo = DemoProcess(str(tmp_path), [sys.executable, "-c", "import signal; signal.pause()"], output)
    try:
        assert demo.stage().startswith("starting, for ")
        lines = [progress_line(DemoProgress(stage, at, 60)) for stage, at in STAGES]
        for count, said in ((1, "starting Spark, for 60 min"), (3, "streaming, for 70 min")):
            output.write_text("a warning of Java\n" + "\n".join(lines[:count]) + "\n")
            os.utime(output, (time.time() - 3600, time.time() - 3600))
            assert demo.stage() == said
        output.write_text(output.read_text() + "another warning\n")
        assert demo.stage() == "streaming, for 70 min"

        class Empty:
            """A lake without catalogs."""

        watcher = Watcher(Empty(), Empty(), stages={"demo": demo.stage})  # type: ignore[arg-type]
        assert overview(watcher).stages == {"demo": "streaming, for 70 min"}
    finally:
        demo.stop()
    assert demo.stage() == "", "a demo that was ended has a failure"


def test_a_demo_leaves_no_files(tmp_path: Path) -> None:
    stopping = (
        "import contextlib, tempfile; from pathlib import Path; from lakelog.service import demo\n"
        "demo.connect = demo.changes = lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt)\n"
        "import pyarrow as pa\n"
        "class Lake(contextlib.AbstractContextManager):\n"
        "    def __exit__(self, *e): pass\n"
        "    def sql(self, text): pass\n"
        "    def table(self, name): return None\n"
        "demo.connect, demo.changes = lambda **k: Lake(), lambda: pa.table({'a': [1]})\n"
        "run = demo.run_demo(demo.DemoSettings(warehouse='w'))\n"
        "with contextlib.suppress(Exception): list(run)\n"
    )
    subprocess.run([sys.executable, "-c", stopping], env={"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)})
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("lakelog-replay")] == []
