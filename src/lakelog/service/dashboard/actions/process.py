"""The process of one action: ``python -m lakelog.service.dashboard.actions.process``.

It reads one JSON object from stdin (connection, table, kind). It writes lines of JSON: the progress (finished and all
buckets), and the outcome as the last line. When stdin ends, it stops at the next safe point.
"""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import asdict, replace
from typing import Any

import orjson

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.lake import connect
from lakelog.service.optimizer.runner import RunContext, RunResult, run_action
from lakelog.table.maintenance.run_history import DONE, FAILED, NOTHING, WAITS, Run, Runs

END_WRITER = "end-writer"


def main() -> None:
    """Runs the action."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the foreground process
    asked = orjson.loads(sys.stdin.readline())
    stopped = threading.Event()
    threading.Thread(target=_wait_for_end, args=(stopped,), daemon=True).start()
    try:
        with connect(**asked["connect"]) as lake:
            table = lake.table(asked["table"])
            if asked["kind"] == END_WRITER:
                table.end_writer(asked["writer"])
                done = RunResult(DONE, f"writer {asked['writer']} ended")
            else:
                runs = Runs(table.logical.io, table.path)
                run = Run.begun(table.name, asked["kind"], asked["reason"], now_ms())
                runs.record(run)
                began = monotonic_s()
                done = run_action(table.logical, asked["kind"], RunContext(stopped.is_set, progress=_report_progress))
                if done.outcome in (NOTHING, WAITS):
                    runs.remove(run)
                else:
                    runs.record(replace(run, seconds=round(monotonic_s() - began, 3), **asdict(done)))
    except LakelogError as why:
        done = RunResult(FAILED, str(why))
    _send(outcome=done.outcome, detail=done.detail)


def _wait_for_end(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


def _report_progress(done: int, total: int) -> None:
    _send(done=done, total=total)


def _send(**what: Any) -> None:
    print(orjson.dumps(what).decode(), flush=True)  # noqa: T201 - the dashboard reads it


if __name__ == "__main__":
    main()
