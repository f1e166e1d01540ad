"""Containers of one machine, which have its name and its boot: the numbers of their processes are their own."""

from __future__ import annotations

import os
import subprocess
import sys

from hosts.network import ROOT, check_machine
from lakelog.io.machine import has_ended, process_space

_ASK = "import sys; from lakelog.io.machine import has_ended; print(has_ended(sys.argv[1], int(sys.argv[2])))"


def test_no_container_takes_a_process_of_another_one_for_dead() -> None:
    check_machine()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert has_ended(process_space(), ended.pid)
    assert not has_ended(process_space(), os.getpid())
    inside = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", _ASK, process_space()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for process in (os.getpid(), ended.pid):
        done = subprocess.run([*inside, str(process)], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False", "only its own container knows"
