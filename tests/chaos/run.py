"""One run: starts everything, kills by plan, waits for the end, counts."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from chaos.kills import Kill, plan_kills
from chaos.processes import EXECUTOR, TASK_WORKER, Job, kill, memory_mb, sessions
from chaos.rows import DDL, Input
from chaos.servers import SERVERS, Server
from chaos.verdict import census, judge, readings
from lakelog import Lake, connect
from lakelog.errors import Unavailable
from lakelog.logstore.base import LogReader
from lakelog.logstore.clients import reader_for
from log_tables import log_of

_LOOK_S = 0.5
_ROWS_S = 10.0
_CONTROL_RECORDS = 100
_TELL_S = 10.0
_END_S = 1_800.0
"""How long the jobs may take for the rest once nothing is killed any more."""
_HEAD_START_S = 5.0
_BURST = 15_000
"""Changes of one micro-batch at most: on a busy machine one has to come to its end between two kills."""

_MODE = {"changes": "all", "upserts": "upsert", "append": "all"}


@dataclass
class Chaos:
    """``run`` gives the results; all that it starts ends with it. ``seconds`` of killing, then the rest in peace."""

    directory: Path
    kind: str
    log: str
    seconds: float
    rate: int
    keys: int
    seed: int
    every_s: float
    victims: tuple[str, ...]
    report: Callable[[str], None]
    roles: tuple[str, ...] = ("writer", "copier", "tail")
    """The jobs, of which the first one writes."""
    server: Server | None = None
    given: dict[str, Any] = field(default_factory=dict)
    """What the jobs are told."""
    jobs: dict[str, Job] = field(default_factory=dict)
    killed: Counter[str] = field(default_factory=Counter)
    peak_mb: float = 0.0
    _returning: threading.Thread | None = None
    _finished_at_kill: int = 0
    _lake: Lake | None = None

    def run(self) -> dict[str, Any]:
        """Starts, kills, waits, counts. Raises TimeoutError when the jobs do not come to their end, ServerBroken."""
        self.directory.mkdir(parents=True, exist_ok=True)
        rows, total = Input(self.kind, self.keys, self.seed), int(self.rate * self.seconds)
        self.server = self._new_server()
        try:
            if self.server is not None:
                self.server.start()
            with connect(warehouse=self._warehouse, storage_options=self._storage) as lake:
                self._create(lake)
                self._lake = lake
                self._start(total)
                started = time.monotonic()
                self._rage()
                self._wait_for(self.jobs["writer"])
                took = time.monotonic() - started
                tailed = self._end_readers(lake, rows)
                self.report("counting")
                found = judge(
                    counted_input(rows, total), readings(lake, rows, self._values(lake), tailed, "copier" in self.roles)
                )
                counts = census(lake.table("db.t"), rows, total)
                snapshot = lake.table("db.t").latest_snapshot()
        finally:
            self._stop()
        equal = all(not r["lost"] and not r["extra"] for r in found.values()) and counts["net"] == counts["sent"]
        results = {
            "log": self.log,
            "kind": self.kind,
            "seed": self.seed,
            "seconds": round(took, 1),
            "rows_per_s": round(counts["sent"] / took),
            **counts,
            "lost": max(r["lost"] for r in found.values()),
            "extra": max(r["extra"] for r in found.values()),
            "readers": found,
            "kills": dict(self.killed),
            "starts": {name: job.starts for name, job in self.jobs.items()},
            "failures": {name: job.failures for name, job in self.jobs.items() if job.failures},
            "tail_begun": self.jobs["tail"].said()["begun"],
            "snapshots": 0 if snapshot is None else snapshot.id,
            "peak_mb": round(self.peak_mb),
            "equal": equal,
        }
        self.report(table_of(results))
        return results

    def _new_server(self) -> Server | None:
        """The log's server, where it has one."""
        return SERVERS.create(self.log, self.directory / self.log) if self.log in SERVERS else None

    @property
    def _log(self) -> LogReader:
        assert self._lake is not None
        location = log_of(self._lake.table("db.t"))
        return reader_for(location)

    @property
    def _warehouse(self) -> str:
        return str(self.directory / "warehouse")

    @property
    def _storage(self) -> dict[str, str]:
        return {}

    def _create(self, lake: Lake) -> None:
        options = {"log-store.enabled": "true", "bucket": "4", "log.changelog-mode": _MODE[self.kind]}
        options |= {"log-store.data-format": "debezium-json"}  # the verdict reads it
        options |= {"log-store.type": self.log} if self.server is None else self.server.options()
        key, copied, copy_key = ", primary key (id)", DDL, {}
        if self.kind == "append":
            key, options = "", options | {"bucket-key": "id"}
            copied = "id bigint, n bigint, v bigint, name string, at timestamp"
            copy_key = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
            for column in ("v", "name", "at"):
                # not last_value: what only takes back, compacted by itself, is a row with NULLs
                copy_key |= {
                    f"fields.{column}.aggregate-function": "last_non_null_value",
                    f"fields.{column}.ignore-retract": "true",
                }
        lake.sql(f"create table db.t ({DDL}{key}) using lakelog tblproperties ({_properties(options)})")
        lake.sql(
            f"create table db.copy ({copied}, primary key (id)) using lakelog "
            f"tblproperties ({_properties({'bucket': '2', **copy_key})})"
        )

    def _start(self, total: int) -> None:
        source = {
            "kind": self.kind,
            "keys": str(self.keys),
            "seed": str(self.seed),
            "total": str(total),
            "rate": str(self.rate),
            "burst": str(_BURST),
            "start_ms": str(time.time_ns() // 1_000_000 + int(_HEAD_START_S * 1000)),
        }
        self.given = self._settings(source)
        for role in self.roles:
            self.jobs[role] = self._new_job(role)
            self.jobs[role].start()

    def _new_job(self, role: str) -> Job:
        settings = self.directory / "settings.json"
        settings.write_text(json.dumps(self.given), encoding="utf-8")
        return Job(role, ["chaos.jobs", role, str(settings)], self.directory)

    def _settings(self, source: dict[str, str]) -> dict[str, Any]:
        """What the jobs are told."""
        local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return {
            "warehouse": self._warehouse,
            "storage": self._storage,
            "cluster": {"spark.master": "local-cluster[2,1,512]", **local},
            "source": source,
            "input": {"kind": self.kind, "keys": self.keys, "seed": self.seed},
            "checkpoint": str(self.directory / "checkpoint"),
            "copy_checkpoint": str(self.directory / "copy-checkpoint"),
            "tailed": str(self.directory / "tailed.arrow"),
            "patience_s": 120,
        }

    def _rage(self) -> None:
        """Kills by plan, and starts again what has died; at least until each victim was killed once."""
        victims = [v for v in self.victims if v != "broker" or self.server is not None]
        plan = plan_kills(self.seed, self.every_s, victims)
        coming = next(plan, None)
        started, told, worked = time.monotonic(), 0.0, 0.0
        last, is_done = started, False
        while not is_done and ((now := time.monotonic()) - started < self.seconds or set(self.killed) < set(victims)):
            worked += now - last if self._is_at_work() else 0.0
            last = now
            if coming is not None and coming.at_s <= worked and self._kill(coming):
                coming = next(plan, None)
            is_done = self._keep_up()
            if now - started >= told:
                told = now - started + _TELL_S
                self._tell(now - started)
            time.sleep(_LOOK_S)

    def _keep_up(self) -> bool:
        """Starts again what has died; whether the writing job has done its work."""
        ended = {role: job.keep_up() for role, job in self.jobs.items()}
        return ended["writer"]

    def _kill(self, what: Kill) -> bool:
        """Whether there was something to kill; else it is tried again.

        Of the kills that end the writing job two in three wait until it has finished a micro-batch since the last one:
        on a slow machine it would not come on else. The third one meets it in what it does again.
        """
        writer = self.jobs["writer"]
        ends_job = what.victim in ("driver", "job")
        if ends_job and self._finished() == self._finished_at_kill and what.pick > 1 / 3:
            return False
        if what.amid_rows and not self._wait_for_rows():
            return False
        if ends_job:
            self._finished_at_kill = self._finished()
        if what.victim == "broker":
            self._kill_server(what.away_s)
        elif what.victim == "driver":
            writer.kill_driver()
        elif what.victim == "job":
            writer.kill_all()
        elif what.victim == "copier":
            self.jobs["copier"].kill_all()
        else:
            found = writer.running(EXECUTOR if what.victim == "executor" else TASK_WORKER)
            if not found:
                return False
            kill([found[int(what.pick * len(found))]])
        self.killed[what.victim] += 1
        return True

    def _wait_for_rows(self) -> bool:
        """Waits until the log grows by more than control records; False when it does not for a while."""
        log = self._log
        try:
            before = sum(log.end_offsets().values())
            deadline = time.monotonic() + _ROWS_S
            while time.monotonic() < deadline:
                if sum(log.end_offsets().values()) > before + _CONTROL_RECORDS:
                    return True
                time.sleep(0.01)
        except Unavailable:
            return False
        return False

    def _is_at_work(self) -> bool:
        """Whether tasks of the writing job have begun since it was started."""
        return bool(self.jobs["writer"].running(TASK_WORKER))

    def _kill_server(self, away_s: float) -> None:
        self._wait_for_server()
        assert self.server is not None
        self.server.kill()
        self._returning = threading.Timer(away_s, self.server.start)
        self._returning.start()

    def _wait_for_server(self) -> None:
        if self._returning is not None:
            self._returning.join()

    def _wait_for(self, job: Job) -> None:
        self._wait_for_server()
        started, told = time.monotonic(), 0.0
        while not job.keep_up():
            now = time.monotonic() - started
            if now > _END_S:
                raise TimeoutError(f"the {job.role} has not come to its end; see {job.output}")
            self._keep_up()
            if now >= told:
                told = now + _TELL_S
                self._tell(now)
            time.sleep(_LOOK_S)

    def _end_readers(self, lake: Lake, rows: Input) -> pl.DataFrame:
        """Tells the readers that nothing more comes, and waits until they have it all; what the tail has."""
        there = sum(batch.num_rows for batch in lake.table("db.t").tail("earliest", stop="latest"))
        for role in self.roles[1:]:
            self.jobs[role].tell(str(there))
        for role in self.roles[1:]:
            self._wait_for(self.jobs[role])
        return pl.read_ipc(self.given["tailed"])

    def _values(self, lake: Lake) -> Iterator[bytes | None]:
        """The values of the log, by a client of its own where there is a server."""
        if self.server is not None:
            location = log_of(lake.table("db.t"))
            yield from self.server.values(location)
            return
        for records in lake.table("db.t").log_records():
            yield from records.column("value").to_pylist()

    def _tell(self, now: float) -> None:
        if self.server is not None:
            self.server.check()
        memory = self._memory_mb()
        self.peak_mb = max(self.peak_mb, memory)
        kills = " ".join(f"{victim} {count}" for victim, count in sorted(self.killed.items()))
        failed = sum(len(job.failures) for job in self.jobs.values())
        self.report(
            f"{now:5.0f} s  change {self._reached()}  killed: {kills or '-'}  failed by themselves: {failed}  "
            f"{memory:.0f} MiB"
        )

    def _memory_mb(self) -> float:
        servers = [] if self.server is None or self.server.process is None else [self.server.process.pid]
        return memory_mb(sessions([leader for job in self.jobs.values() for leader in job.leaders[-1:]] + servers))

    def _reached(self) -> int:
        """The change up to which micro-batches are planned."""
        offsets = [p for p in Path(self.given["checkpoint"], "offsets").glob("*") if p.name.isdigit()]
        if not offsets:
            return 0
        newest = max(offsets, key=lambda p: int(p.name)).read_text(encoding="utf-8").splitlines()
        return int(json.loads(newest[-1])["change"]) if len(newest) > 1 else 0

    def _finished(self) -> int:
        """How many micro-batches are finished."""
        return sum(p.name.isdigit() for p in Path(self.given["checkpoint"], "commits").glob("*"))

    def _stop(self) -> None:
        for job in self.jobs.values():
            job.kill_all()
        self._wait_for_server()
        if self.server is not None:
            self.server.stop()


def counted_input(rows: Input, total: int) -> pl.DataFrame:
    """The table that the input leads to, counted."""
    return rows.table_after(total).with_columns(pl.lit(1, pl.Int64).alias("n"))


def table_of(results: dict[str, Any]) -> str:
    """The results as a table."""
    head = ("sent", "log", "redundant", "compensated", "net", "lost", "extra")
    lines = ["".join(f"{name:>13}" for name in head), "".join(f"{results[name]:>13,}" for name in head), ""]
    lines += [
        f"{name:28}{r['rows']:>12,} rows  {r['lost']:>8,} lost  {r['extra']:>8,} extra"
        for name, r in results["readers"].items()
    ]
    lines.append("kills: " + ", ".join(f"{victim} {count}" for victim, count in sorted(results["kills"].items())))
    return "\n".join(lines)


def _properties(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
