"""Writers of the same keys on hosts whose clocks differ, which lose power and connections; one order explains all."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos.crowd import Crowd
from chaos.processes import Job
from chaos.servers import Server
from hosts.clock import wrong_clock
from hosts.hadoop import DataNode, NameNode
from hosts.network import Host, Network
from hosts.servers import KafkaOnHost, OnHost, S3OnHost

CLIENTS: Final = ("on-time", "ahead", "behind")
_OF_HOSTS: Final = 0.25
"""Share of the actions that a whole host suffers."""


@dataclass
class CrowdOnHosts(Crowd):
    """``run`` gives the results, in a process that has gone inside a network namespace.

    ``clocks`` are seconds by which the clock of a host is ahead. ``directory`` is where clients note what they were
    answered: the only directory that hosts share, and no part of the table.
    """

    clocks: Mapping[str, int] = field(default_factory=dict)
    library: Path = Path()
    storage: str = "s3"
    _services: list[OnHost] = field(default_factory=list)
    _places: dict[str, Host] = field(default_factory=dict)
    _uri: str = ""

    def run(self) -> dict[str, Any]:
        """As ``Crowd.run``, on hosts."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.network = Network(self.directory.with_name("network"), (*CLIENTS, "servers"), self.directory)
        servers = self.network.hosts["servers"]
        with self.network:
            try:
                for name, ahead_s in self.clocks.items():
                    self.network.hosts[name].variables |= wrong_clock(self.library, ahead_s)
                if self.storage == "s3":
                    self.store = S3OnHost(servers)
                    for host in self.network.hosts.values():
                        host.variables |= self.store.variables
                else:
                    self._services += [NameNode(servers), DataNode(servers)]
                    self._uri = f"{self._services[0].uri}/warehouse"  # type: ignore[attr-defined]
                    for service in self._services:
                        service.start()
                return super().run()
            finally:
                for service in self._services:
                    service.kill()

    def _new_server(self) -> Server | None:
        return KafkaOnHost(self.network.hosts["servers"]) if self.log == "kafka" else None

    @property
    def _warehouse(self) -> str:
        return self._uri or super()._warehouse

    def _new_job(self, name: str, command: list[str]) -> Job:
        host = self._places[name] = self.network.hosts[CLIENTS[len(self._places) % len(CLIENTS)]]
        return Job(name, command, self.directory, host.command)

    def _act(self, dice: random.Random) -> None:
        if dice.random() >= _OF_HOSTS:
            super()._act(dice)
            return
        host = self.network.hosts[dice.choice(CLIENTS)]
        if dice.random() < 0.5:
            self.done["host without power"] += 1
            for name, job in self.jobs.items():
                job.killed = job.killed or self._places[name] is host
            host.power_off()
            time.sleep(dice.random())
            host.boot()
            return
        self.done["host without network"] += 1
        with contextlib.ExitStack() as cut:
            cut.enter_context(self.network.without(host))
            time.sleep(self.lease_s * (0.3 + 2 * dice.random()))
