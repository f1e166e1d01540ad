"""The process of one action: ``python -m lakelog.service.dashboard.actions.process``.

It reads one JSON object from stdin (connection, table, kind, arguments). It writes lines of JSON: the progress
(finished and all buckets), and the outcome as the last line. When stdin ends, it stops at the next safe point.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import asdict, replace

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.lake import connect
from lakelog.service.child_process import Pipe
from lakelog.service.optimizer.runner import RunContext, RunResult, run_action
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.procedure import call_text
from lakelog.table.maintenance.run_history import DONE, FAILED, NOTHING, WAITS, Run, Runs


def main() -> None:
    """Runs the action."""
    pipe, stopped = Pipe.to_parent(), threading.Event()
    messages = pipe.messages()
    asked = next(messages)
    threading.Thread(target=_wait_for_end, args=(messages, stopped), daemon=True).start()

    def report(done: int, total: int) -> None:
        pipe.send({"done": done, "total": total})

    try:
        with connect(**asked["connect"]) as lake:
            table = lake.table(asked["table"])
            if asked["arguments"] or asked["kind"] in PROCEDURES:
                lake.run(call_text(asked["kind"], [("table", asked["table"]), *asked["arguments"].items()]))
                done = RunResult(DONE, ", ".join(asked["arguments"].values()))
            else:
                runs = Runs(table.logical.io, table.path)
                run = Run.begun(table.name, asked["kind"], asked["reason"], now_ms())
                runs.record(run)
                began = monotonic_s()
                done = run_action(table.logical, asked["kind"], RunContext(stopped.is_set, progress=report))
                if done.outcome in (NOTHING, WAITS):
                    runs.remove(run)
                else:
                    runs.record(replace(run, seconds=round(monotonic_s() - began, 3), **asdict(done)))
    except LakelogError as why:
        done = RunResult(FAILED, str(why))
    pipe.send({"outcome": done.outcome, "detail": done.detail})


def _wait_for_end(messages: Iterator[object], stopped: threading.Event) -> None:
    for _ in messages:
        pass
    stopped.set()


if __name__ == "__main__":
    main()
