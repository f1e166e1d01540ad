"""A run on four hosts: a stream writes both stores of a table while hosts, processes and connections fail.

``driver`` has the driver of the writing job, ``workers`` its executors, ``servers`` the storage, the log's server and
the master of the cluster, and ``readers`` a tail, ``lakelog optimize`` and a job that copies the log. They share
nothing but what they reach over the network.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from chaos.kills import Kill
from chaos.processes import EXECUTOR, TASK_WORKER, Job, kill, memory_mb
from chaos.run import Chaos
from chaos.servers import Server
from hosts.network import Host, Network
from hosts.servers import KafkaOnHost, MasterOnHost, OnHost, S3OnHost, WorkerOnHost

HOSTS: Final = ("driver", "workers", "servers", "readers")
VICTIMS: Final = {
    **{f"host {name}": "a loss of power: all processes of the host, its connections and its /tmp" for name in HOSTS},
    "worker": "a worker of the Spark cluster",
    "executor": "one executor",
    "task": "the Python worker of a task",
    "job": "the driver of the writing job",
    "optimizer": "lakelog optimize",
    "broker": "the log's server",
    "cut driver": "the connections of the driver's host, for a while",
    "cut workers": "the connections of the executors' host",
    "cut readers": "the connections of the readers' host",
    "part": "the connections between driver and executors, while both reach the servers",
}
_CLUSTER: Final = {
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "4s",
    "spark.cores.max": "2",
    "spark.excludeOnFailure.enabled": "false",
}
"""An executor without a connection is given up in seconds and not in minutes."""
_PROGRAMS: Final = {"worker": "org.apache.spark.deploy.worker.Worker", "executor": EXECUTOR, "task": TASK_WORKER}
_FORGOTTEN_S: Final = 90.0
"""How long a writing job may have no application: longer than it takes to start."""
_PLACES: Final = {"writer": "driver"}
"""The host of a job; the others are at the readers."""


@dataclass
class HostsRun(Chaos):
    """``run`` gives the results, in a process that has gone ``inside`` a network namespace."""

    cut_s: float = 5.0
    """Seconds without connections."""
    workers: int = 2
    _cuts: list[tuple[float, contextlib.ExitStack]] = field(default_factory=list)
    _services: list[OnHost] = field(default_factory=list)
    _watched: tuple[int, float] = (0, 0.0)
    """The start of the writing job that has no application since then."""

    def run(self) -> dict[str, Any]:
        """As ``Chaos.run``, on hosts."""
        with self.network:
            try:
                self._start_services()
                self._bucket = self.storage.new_bucket()
                return super().run()
            finally:
                for service in self._services:
                    service.kill()

    @cached_property
    def network(self) -> Network:
        """The hosts."""
        return Network(self.directory, HOSTS)

    @cached_property
    def storage(self) -> S3OnHost:
        """Where the tables are."""
        return S3OnHost(self._host("servers"))

    @cached_property
    def master(self) -> MasterOnHost:
        """That of the cluster."""
        return MasterOnHost(self._host("servers"))

    @property
    def _warehouse(self) -> str:
        return f"s3://{self._bucket}/warehouse"

    @property
    def _storage(self) -> dict[str, str]:
        return self.storage.options

    def _host(self, name: str) -> Host:
        return self.network.hosts[name]

    def _start_services(self) -> None:
        workers = [WorkerOnHost(self._host("workers"), self.master, n) for n in range(self.workers)]
        for service in (self.storage, self.master, *workers):
            self._services.append(service)
            service.start()

    def _new_server(self) -> Server | None:
        if self.log != "kafka":
            return None
        server = KafkaOnHost(self._host("servers"))
        self._services.append(server)
        return server

    def _settings(self, source: dict[str, str]) -> dict[str, Any]:
        driver, readers = self._host("driver"), self._host("readers")
        return super()._settings(source) | {
            "cluster": {"spark.master": self.master.url, **_CLUSTER},
            "checkpoint": str(driver.disk / "checkpoint"),
            "copy_checkpoint": str(readers.disk / "copy-checkpoint"),
            "tailed": str(readers.disk / "tailed.arrow"),
        }

    def _start(self, total: int) -> None:
        self._host("readers").variables |= self.storage.variables
        super()._start(total)
        optimize = ["lakelog", "optimize", "--interval", "2 s", "--format", "jsonl", "--warehouse", self._warehouse]
        self.jobs["optimizer"] = Job("optimizer", optimize, self.directory, self._host("readers").command)
        self.jobs["optimizer"].start()

    def _new_job(self, role: str) -> Job:
        host = self._place(role)
        settings = host.disk / "settings.json"
        settings.write_text(json.dumps(self.given), encoding="utf-8")
        return Job(role, ["chaos.jobs", role, str(settings)], self.directory, host.command)

    def _place(self, role: str) -> Host:
        return self._host(_PLACES.get(role, "readers"))

    def _keep_up(self) -> bool:
        now = time.monotonic()
        for cut in [cut for cut in self._cuts if cut[0] <= now]:
            self._cuts.remove(cut)
            cut[1].close()
        if not self._cuts:
            self._revive()
            self._watch(now)
        return super()._keep_up()

    def _watch(self, now: float) -> None:
        """Ends the writing job, which is then started again, if the master has forgotten it: it would wait for ever.

        A master removes the application of a driver whose connection was lost, and Spark's driver does not notice.
        """
        writer, state = self.jobs.get("writer"), self.master.state()
        if writer is None or not state or writer.starts != self._watched[0] or state.get("activeapps"):
            self._watched = (writer.starts if writer else 0, now)
        elif now - self._watched[1] > _FORGOTTEN_S:
            writer.kill_newest()

    def _revive(self) -> None:
        """Starts services that have died, as the system of a host does; the log's server has an own time for that."""
        for service in self._services:
            if service is not self.server and not service.is_alive:
                service.start()

    def _kill(self, what: Kill) -> bool:
        verb, _, name = what.victim.partition(" ")
        if name and self._cuts or verb == "broker":
            return not self._cuts and super()._kill(what)
        if verb == "job" and self._finished() == self._finished_at_kill and what.pick > 1 / 3:
            return False
        if what.amid_rows and not self._wait_for_rows():
            return False
        if verb in ("job", "host"):
            self._finished_at_kill = self._finished()
        done = self._end_power(name, what.away_s) if verb == "host" else self._end(verb, name, what.pick)
        if done:
            self.killed[what.victim] += 1
        return done

    def _end_power(self, name: str, away_s: float) -> bool:
        self._wait_for_server()
        host = self._host(name)
        for role, job in self.jobs.items():
            job.killed = job.killed or self._place(role) is host
        host.power_off()
        time.sleep(away_s)
        host.boot()
        for service in self._services:
            if service.host is host:
                service.kill()
                service.start()
        return True

    def _end(self, verb: str, name: str, pick: float) -> bool:
        """Ends a process, or the connections of hosts; False where there is none."""
        if verb in ("cut", "part"):
            hosts = [self._host(one) for one in ((name,) if name else ("driver", "workers"))]
            cut = contextlib.ExitStack()
            cut.enter_context(self.network.without(*hosts) if name else self.network.parted(*hosts))
            self._cuts.append((time.monotonic() + self.cut_s, cut))
            return True
        if verb in ("job", "optimizer"):
            self.jobs["writer" if verb == "job" else verb].kill_newest()
            return True
        found = self._host("workers").processes(_PROGRAMS[verb])
        if found:
            kill([found[int(pick * len(found))]])
        return bool(found)

    def _is_at_work(self) -> bool:
        return bool(self._host("workers").processes(TASK_WORKER))

    def _memory_mb(self) -> float:
        return memory_mb([process for host in self.network.hosts.values() for process in host.processes()])

    def _stop(self) -> None:
        for _, cut in self._cuts:
            cut.close()
        super()._stop()
