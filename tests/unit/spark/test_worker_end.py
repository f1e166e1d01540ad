"""How a worker of Spark ends: what is left to do is done once, whether Spark signals or closes the socket first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_WORKER = """
import os, signal, sys
from lakelog.spark.runtime.worker_end import ending_later

def last():
    {amid}
    print("sealed", flush=True)

with ending_later(lambda: print("an older end", flush=True)):
    pass
with ending_later(last):
    {inside}
    print("committed", flush=True)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as Spark's daemon does before it waits for the next commit
{after}
"""


@pytest.mark.parametrize(
    ("amid", "inside", "after", "code"),
    [
        ("pass", "pass", "os.kill(os.getpid(), signal.SIGHUP)", 0),
        ("pass", "os.kill(os.getpid(), signal.SIGHUP)", "print('never')", 0),
        ("pass", "pass", "os._exit(0)", 0),
        ("pass", "pass", "os._exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGHUP)", "pass", "os._exit(0)", 0),
        ("pass", "pass", "os.fork() or os._exit(0); os.wait(); os._exit(0)", 0),
    ],
    ids=["signal", "signal amid the commit", "closed socket", "failed worker", "both", "forked child"],
)
def test_a_worker_seals_once_before_it_ends(amid: str, inside: str, after: str, code: int) -> None:
    script = _WORKER.format(amid=amid, inside=inside, after=after)
    path = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout.split()) == (code, ["committed", "sealed"]), ended.stderr
