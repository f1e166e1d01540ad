"""A run of many writers: batch and streaming writers with the same keys beside compactor, optimizer and readers.

With ``store``, the warehouse is in it. The server that is killed or stalled is the log's, or the
store if the log has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos.crowd_verdict import Verdict
from chaos.journal import BEGIN, DECIDE, SCAN, last_word, tally
from chaos.processes import Job, go_on, kill, session
from chaos.registers import COLUMNS
from chaos.servers import SERVERS, Server
from lakelog import Lake, connect
from register_history import FAILED, OK, UNKNOWN
from servers.s3_server import S3Server

_LOOK_S: Final = 0.05
_TELL_S: Final = 10.0
_AMID_S: Final = 1.0
"""How long an action waits until its victim is amid a write."""
_BEGIN_S: Final = 300.0
_END_S: Final = 300.0
"""How long processes may take to begin, and to come to their end."""
_STALLS: Final = 0.4
"""Share of the times at which the server is stopped for a while instead of killed."""
_TWIN_S: Final = 5.0
"""How long a process goes on beside the one that was started in its place."""
ACTIONS: Final = {"kill": 5, "pause": 2, "stop": 3, "twin": 2}
"""How often each is done: kill -9; SIGSTOP for a moment; SIGSTOP for longer than the lease; that, and the same job is
started meanwhile."""


@dataclass
class Crowd:
    """``run`` gives the results and ends all that it starts. ``lease_s`` and ``content`` are options of the table."""

    directory: Path
    log: str
    kind: str
    seconds: float
    writers: int
    keys: int
    seed: int
    every_s: float
    report: Callable[[str], None]
    lease_s: float = 3.0
    server_every_s: float = 30.0
    spark: bool = False
    content: str = "input"
    store: S3Server | None = None
    server: Server | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    _stopped: dict[int, float] = field(default_factory=dict)
    _twins: dict[int, float] = field(default_factory=dict)
    _returning: threading.Timer | None = None
    _bucket: str = ""

    def run(self) -> dict[str, Any]:
        """Starts, kills, stops, lets all come to rest, judges."""
        for name in ("journals", "links"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.server = self._new_server()
        if self.server is not None:
            self.server.start()
        if self.store is not None:
            os.environ.update(self.store.start().variables)  # for all processes
            self._bucket = self.store.new_bucket()
        keeping = threading.Event()
        try:
            with connect(warehouse=self._warehouse) as lake:
                self._create(lake)
                path = lake.table("db.t").path
                inside = "" if self.store is None else str(self.store.directory / "data") + "/"
                table = Path(inside + path.removeprefix("file://").removeprefix("s3://"))
            threading.Thread(target=self._keep_links, args=(table, keeping), daemon=True).start()
            self._start()
            self._wait_until(lambda: all(self._is_at_work(job) for job in self.jobs.values()), "have begun", _BEGIN_S)
            self._rage()
            self.report("coming to rest")
            self._end()
            with connect(warehouse=self._warehouse) as lake:
                verdict = Verdict(lake, self.directory, self.keys, self._plain(lake), self.spark)
                verdict.judge()
        finally:
            keeping.set()
            self._stop()
        results = {
            "log": self.log,
            "kind": self.kind,
            "seed": self.seed,
            **tally(self.directory / "journals"),
            "done": dict(self.done),
            "failures": {name: job.failures for name, job in self.jobs.items() if job.failures},
            "readings": {name: len(found) for name, found in verdict.readings.items()},
            "wrong": verdict.wrong,
            "equal": not verdict.wrong,
        }
        self.report(_table_of(results))
        return results

    def _new_server(self) -> Server | None:
        """The log's server, where it has one."""
        return SERVERS.create(self.log, self.directory / self.log) if self.log in SERVERS else None

    @property
    def _warehouse(self) -> str:
        return str(self.directory / "warehouse") if self.store is None else f"s3://{self._bucket}/warehouse"

    def _create(self, lake: Lake) -> None:
        options = {
            "log-store.enabled": "true",
            "log-store.data-format": "debezium-json",  # the verdict reads it
            "bucket": "2",
            "log.writer-timeout": f"{self.lease_s:g} s",
            "write.concurrent-writers": "true",
            "log.content": self.content,
            "log.changelog-mode": "upsert" if self.kind == "upserts" else "all",
        }
        options |= {"bucket-key": "id"} if self.kind == "append" else {}
        options |= {"log-store.type": self.log} if self.server is None else self.server.options()
        key = "" if self.kind == "append" else ", primary key (id)"
        said = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        lake.sql(f"create table db.t ({COLUMNS}{key}) using lakelog tblproperties ({said})")

    def _start(self) -> None:
        settings = Path(self._settings)
        given = {
            "warehouse": self._warehouse,
            "directory": str(self.directory),
            "keys": self.keys,
            "seed": self.seed,
        }
        settings.write_text(json.dumps(given), encoding="utf-8")
        roles = {f"writer{n}": "writer" for n in range(self.writers)} | {"stream0": "stream", "stream1": "stream"}
        roles |= {"reader": "reader", "eventual": "tail", "transactional": "tail", "compactor": "compactor"}
        roles |= {} if self.kind == "append" else {"rollback": "rollback"}
        for name, role in roles.items():
            self.jobs[name] = self._new_job(name, ["chaos.clients", role, name, str(settings)])
        if self.spark:
            self.jobs["stream1"] = self._new_job("stream1", ["chaos.crowd_spark", "stream1", str(settings)])
        optimizer = ["lakelog", "optimize", "db.t", "--interval", "2 s", "--warehouse", self._warehouse]
        self.jobs["optimizer"] = self._new_job("optimizer", optimizer)
        for job in self.jobs.values():
            job.start()

    def _new_job(self, name: str, command: list[str]) -> Job:
        return Job(name, command, self.directory)

    def _rage(self) -> None:
        """Each ``every_s`` something is done to some process, and what has died is started again."""
        dice = random.Random(self.seed)
        started, told = time.monotonic(), 0.0
        next_s, server_s = self.every_s, self.server_every_s
        while (now := time.monotonic() - started) < self.seconds:
            if now >= next_s:
                next_s = now + 2 * self.every_s * dice.random()
                self._act(dice)
            if (self.server or self.store) is not None and now >= server_s:
                server_s = now + 2 * self.server_every_s * dice.random()
                away_s = dice.choice((0.1, 2, 6)) * dice.random()
                self._stall_server(2 * away_s) if dice.random() < _STALLS else self._kill_server(away_s)
            self._go_on(time.monotonic())
            for job in self.jobs.values():
                job.keep_up()
            if now >= told:
                told = now + _TELL_S
                self._tell(now)
            time.sleep(_LOOK_S)

    def _act(self, dice: random.Random) -> None:
        weights = {name: 3 if name.startswith(("writer", "stream")) else 1 for name in self.jobs}
        name = dice.choices(list(weights), list(weights.values()))[0]
        action = dice.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        long_s, short_s = self.lease_s * (1.1 + 2 * dice.random()), 1.5 * dice.random()
        is_amid, delay_s = dice.random() < 0.75, 0.03 * dice.random()
        job = self.jobs[name]
        if job.leaders[-1] in self._stopped or not self._is_at_work(job):
            return
        if is_amid and name.startswith(("writer", "stream")):
            self._wait_amid(job)
            time.sleep(delay_s)
        self.done[action] += 1
        if action == "kill":
            job.kill_newest()
            return
        leader = job.stop()
        self._stopped[leader] = until = time.monotonic() + (short_s if action == "pause" else long_s)
        if action == "twin":
            self._twins[leader] = until + _TWIN_S
            job.start()

    def _is_at_work(self, job: Job) -> bool:
        """Whether it has got so far as to have a journal."""
        return job.role == "optimizer" or self._journal(job).exists()

    def _journal(self, job: Job) -> Path:
        return self.directory / "journals" / f"{job.role}.{job.starts}.jsonl"

    def _wait_amid(self, job: Job) -> None:
        deadline = time.monotonic() + _AMID_S
        path = self._journal(job)
        while path.exists() and last_word(path) not in (BEGIN, DECIDE) and time.monotonic() < deadline:
            time.sleep(0.002)

    def _go_on(self, now: float) -> None:
        for leader in [leader for leader, until in self._stopped.items() if now >= until]:
            del self._stopped[leader]
            go_on(leader)
        for leader in [leader for leader, until in self._twins.items() if now >= until]:
            del self._twins[leader]
            kill(session(leader))

    def _kill_server(self, away_s: float) -> None:
        self._wait_for_server()
        victim = self.server or self.store
        assert victim is not None
        victim.kill()
        self.done["server"] += 1
        self._returning = threading.Timer(away_s, victim.start)
        self._returning.start()

    def _stall_server(self, stalled_s: float) -> None:
        """Suspends the server and resumes it later: to its clients, its disk does not answer."""
        self._wait_for_server()
        victim = self.server or self.store
        assert victim is not None and victim.process is not None
        pid = victim.process.pid
        os.killpg(pid, signal.SIGSTOP)
        self.done["server stalled"] += 1
        self._returning = threading.Timer(stalled_s, os.killpg, (pid, signal.SIGCONT))
        self._returning.start()

    def _wait_for_server(self) -> None:
        if self._returning is not None:
            self._returning.join()

    def _end(self) -> None:
        """Some are killed where they are, some come to their end; then one more writer, and the tails read on to it."""
        self._wait_for_server()
        dice = random.Random(-self.seed)
        self._go_on(float("inf"))
        tails = [self.jobs.pop(name) for name in ("eventual", "transactional")]
        for name, job in self.jobs.items():
            if dice.random() < 0.5 or name == "optimizer":
                job.kill_all()
            else:
                job.tell("end")
        left = [job for job in self.jobs.values() if not job.killed]
        self._wait_until(lambda: all(job.keep_up() for job in left), "have come to their end", _END_S)
        for job in left:
            job.kill_all()
        time.sleep(self.lease_s + 0.5)
        last = self.jobs["last"] = self._new_job("last", ["chaos.clients", "last", "last", self._settings])
        last.start()
        for job in (last, *tails):
            self.jobs[job.role] = job
            job.tell("end")
            self._wait_until(lambda: job.keep_up() and not last.failures, "have come to their end", _END_S)  # noqa: B023

    def _wait_until(self, is_so: Callable[[], bool], what: str, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not all processes {what}; see what they say in {self.directory}")
            time.sleep(_LOOK_S)

    @property
    def _settings(self) -> str:
        return str(self.directory / "settings.json")

    def _plain(self, lake: Lake) -> Iterator[bytes | None]:
        """The values of the log, by a client of its own where there is a server."""
        if self.server is not None:
            location = lake.table("db.t").log
            assert location is not None
            yield from self.server.values(location)
            return
        for records in lake.table("db.t").log_records():
            yield from records.column("value").to_pylist()

    def _keep_links(self, table: Path, ended: threading.Event) -> None:
        """Keeps the links of the chain, for a look at a run that went wrong; the table deletes them when sealed."""
        chain, kept = table / "lakelog" / "chain", self.directory / "links"
        while not ended.wait(0.02):
            with contextlib.suppress(OSError):
                for link in os.scandir(chain):
                    if link.name.isdigit() and not (kept / link.name).exists():
                        with contextlib.suppress(OSError):
                            os.link(link.path, kept / link.name)

    def _tell(self, now: float) -> None:
        if self.server is not None:
            self.server.check()
        said = tally(self.directory / "journals")
        failed = sum(len(job.failures) for job in self.jobs.values())
        done = " ".join(f"{action} {count}" for action, count in sorted(self.done.items()))
        self.report(
            f"{now:5.0f} s  writes {said[BEGIN]} (ok {said[OK]}, refused {said[FAILED]}, unknown {said[UNKNOWN]})  "
            f"reads {said[SCAN]}  {done or '-'}  failed by themselves: {failed}"
        )

    def _stop(self) -> None:
        for job in self.jobs.values():
            job.kill_all()
        self._wait_for_server()
        for server in (self.server, self.store):
            if server is not None:
                server.stop()


def _table_of(results: dict[str, Any]) -> str:
    lines = [f"{name:12}{results[name]:>9,}" for name in (BEGIN, OK, FAILED, UNKNOWN, SCAN)]
    lines += [f"{name:60}{rows:>9,} rows" for name, rows in results["readings"].items()]
    lines += [f"done: {results['done']}", *(f"WRONG {text}" for text in results["wrong"]), ""]
    return "\n".join([*lines, "all readings are one, and agree with every answer" if results["equal"] else "WRONG"])
