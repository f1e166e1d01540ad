"""The services of ``examples/services`` start with one command, deliver rows to the tail, and end with one Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from secrets_in_files import leaked

RUN = Path(__file__).parent.parent.parent / "examples" / "services" / "run.py"


def test_rows_reach_the_tail_and_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, str(RUN), str(tmp_path / "warehouse")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        assert started.stdout is not None
        seen: dict[str, list[str]] = {}
        for line in started.stdout:
            name, _, text = line.partition("|")
            seen.setdefault(name.strip(), []).append(text.strip())
            if len(seen.get("tail", ())) > 100:
                break
        services = psutil.Process(started.pid).children(recursive=True)
        started.send_signal(signal.SIGINT)
        rest = started.stdout.read()
        assert started.wait(120) == 0, (seen, rest)
    assert all("flight_id" in json.loads(row) for row in seen["tail"])
    assert {"broker", "writer", "dashboard", "tail"} <= set(seen)
    assert len(services) >= 5 + 1  # the broker's JVM
    _, alive = psutil.wait_procs(services, 10)
    assert alive == []
    assert leaked(tmp_path) == []
