"""Hadoop on hosts: a name node and a data node, a resource manager and node managers, from the jars of ``servers``."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from hosts.network import Host
from hosts.servers import OnHost
from lakelog.service.servers.jars import resolve_jars
from lakelog.service.servers.server_process import ServerProcess
from servers.hdfs_cluster import JARS

NAME_NODE, NAME_NODE_HTTP, DATA_NODE, DATA_NODE_HTTP, DATA_NODE_IPC = 8020, 9870, 9866, 9864, 9867
RESOURCES_HTTP: Final = 8088
"""A host has all its ports for itself."""
YARN_JARS: Final = ("ch.qos.reload4j:reload4j:1.2.22", "org.bouncycastle:bcpkix-jdk18on:1.84")
"""What YARN needs beside the jar with all of Hadoop's servers."""
_YARN: Final = "org.apache.hadoop.yarn.server"
_HDFS: Final = "org.apache.hadoop.hdfs.server"


def write_settings(host: Host, servers: Host) -> Path:
    """The directory of Hadoop's configuration on a host; ``servers`` has name node and resource manager."""
    directory = host.disk / "hadoop" / "conf"
    directory.mkdir(parents=True, exist_ok=True)
    disk, name = host.disk / "hadoop", servers.name
    core = {"fs.defaultFS": f"hdfs://{name}:{NAME_NODE}", "hadoop.tmp.dir": f"{disk}/tmp"}
    hdfs = {
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.name.dir": f"{disk}/names",
        "dfs.namenode.rpc-address": f"{name}:{NAME_NODE}",
        "dfs.namenode.http-address": f"{name}:{NAME_NODE_HTTP}",
        "dfs.namenode.file.close.num-committed-allowed": "1",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.data.dir": f"{disk}/blocks",
        "dfs.datanode.hostname": name,
        "dfs.datanode.address": f"{host.address}:{DATA_NODE}",
        "dfs.datanode.http.address": f"{host.address}:{DATA_NODE_HTTP}",
        "dfs.datanode.ipc.address": f"{host.address}:{DATA_NODE_IPC}",
    }
    yarn = {
        "yarn.resourcemanager.hostname": name,
        "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
        "yarn.resourcemanager.am.max-attempts": "4",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.hostname": host.name,
        "yarn.nodemanager.local-dirs": f"{disk}/local",
        "yarn.nodemanager.log-dirs": f"{disk}/logs",
        "yarn.nodemanager.resource.memory-mb": "4096",
        "yarn.nodemanager.resource.cpu-vcores": "4",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.delete.debug-delay-sec": "600",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
        "yarn.nodemanager.env-whitelist": ",".join(host.environment()),
        "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
    }
    for part, values in (("core", core), ("hdfs", hdfs), ("yarn", yarn)):
        lines = "".join(
            f"<property><name>{key}</name><value>{escape(value)}</value></property>\n" for key, value in values.items()
        )
        (directory / f"{part}-site.xml").write_text(f"<configuration>\n{lines}</configuration>\n", encoding="utf-8")
    return directory


class _Hadoop(ServerProcess):
    """A class of Hadoop with its settings."""

    MAIN: str
    MEMORY = "192m"
    START_S = 200.0

    host: Host
    servers: Host

    def command(self) -> Sequence[str]:
        return self.java(self.MAIN)

    def java(self, *main: str) -> list[str]:
        """The command of a class of Hadoop."""
        jars = ":".join(f"{resolve_jars(found)[0].parent}/*" for found in (JARS, YARN_JARS))
        classpath = f"{write_settings(self.host, self.servers)}:{jars}"
        logs = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", f"-Dhadoop.log.dir={self.directory}"]
        return ["java", "-Xms32m", f"-Xmx{self.MEMORY}", *logs, "-cp", classpath, *main]

    def asked(self, port: int, path: str) -> dict[str, Any]:
        """What the servers' host answers to a question; empty while it does not."""
        with (
            suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://{self.servers.name}:{port}/{path}", timeout=3) as answer,
        ):
            found: dict[str, Any] = json.load(answer)
            return found
        return {}


class _HadoopOnHost(OnHost, _Hadoop):
    def __init__(self, host: Host, servers: Host | None = None) -> None:
        self.host, self.servers = host, servers or host
        ServerProcess.__init__(self, host.disk / "hadoop" / self.NAME.replace(" ", "-"))


class NameNode(_HadoopOnHost):
    """Where the files of HDFS are known."""

    NAME, MAIN = "name node", f"{_HDFS}.namenode.NameNode"

    @property
    def uri(self) -> str:
        """The address of the storage."""
        return f"hdfs://{self.host.name}:{NAME_NODE}"

    def command(self) -> Sequence[str]:
        if (self.host.disk / "hadoop" / "names").exists():
            return super().command()
        both = [" ".join(map(_quoted, self.java(self.MAIN, *more))) for more in (["-format", "-nonInteractive"], [])]
        return self.host.command(["bash", "-c", f"{both[0]} && exec {both[1]}"], directory=self.directory)

    def is_ready(self) -> bool:
        return bool(self.asked(NAME_NODE_HTTP, "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"))


class DataNode(_HadoopOnHost):
    """Where the blocks of HDFS are; beside its name node."""

    NAME, MAIN = "data node", f"{_HDFS}.datanode.DataNode"

    def is_ready(self) -> bool:
        found = self.asked(NAME_NODE_HTTP, "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
        state = (found.get("beans") or [{}])[0]
        return bool(state.get("NumLiveDataNodes")) and state.get("FSState") == "Operational"


class ResourceManager(_HadoopOnHost):
    """YARN's resource manager."""

    NAME, MAIN = "resource manager", f"{_YARN}.resourcemanager.ResourceManager"

    def is_ready(self) -> bool:
        return "clusterInfo" in self.asked(RESOURCES_HTTP, "ws/v1/cluster/info")


class NodeManager(_HadoopOnHost):
    """YARN's agent on a host."""

    NAME, MAIN = "node manager", f"{_YARN}.nodemanager.NodeManager"

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def is_ready(self) -> bool:
        nodes = (self.asked(RESOURCES_HTTP, "ws/v1/cluster/nodes").get("nodes") or {}).get("node", [])
        return any(node["state"] == "RUNNING" and node["nodeHostName"] == self.host.name for node in nodes)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
