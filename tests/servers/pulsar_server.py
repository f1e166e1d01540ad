"""A real Apache Pulsar of one node on loopback, broker and storage in one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lakelog.errors import LakelogError
from lakelog.logstore.base import LogLocation
from lakelog.logstore.pulsar.access import ADMIN_URL, AUTH_PARAMS, Access, Admin
from lakelog.service.servers.jars import resolve_jars
from lakelog.service.servers.server_process import QUICK_START, ServerProcess, free_port, java_program

_JARS: Final = Path(__file__).with_name("pulsar_jars.txt")

_LOG: Final = """status=error
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{HH:mm:ss.SSS} %-5p %c{1} - %m%n
rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
"""
_OPENED: Final = (
    "java.base/jdk.internal.misc",
    "java.base/sun.net",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
_DRIVERS: Final = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"


class PulsarServer(ServerProcess):
    """Broker and storage of one node.

    ``more`` are settings beside its own, ``token`` is what it asks for then. The first start ever downloads the jars
    (220 MB).
    """

    NAME = "Pulsar server"
    START_S = 120.0

    def __init__(self, directory: str | Path, more: dict[str, str] | None = None, token: str = "") -> None:
        super().__init__(directory)
        self._port, self._http, self._storage = free_port(), free_port(), free_port()
        self._more = more or {}
        self.service_url = f"pulsar://127.0.0.1:{self._port}"
        self.admin_url = f"http://127.0.0.1:{self._http}"
        self.properties = {ADMIN_URL: self.admin_url, **({AUTH_PARAMS: f"token:{token}"} if token else {})}

    def is_ready(self) -> bool:
        """Whether it takes topics."""
        try:
            return "public/default" in (self.admin().get("namespaces/public") or [])
        except LakelogError:
            return False

    def admin(self) -> Admin:
        """Its admin interface."""
        return Admin(Access(LogLocation("pulsar", self.service_url, "", 1, properties=self.properties)))

    def _settings(self) -> dict[str, str]:
        return {
            "clusterName": "standalone",
            "brokerServicePort": str(self._port),
            "webServicePort": str(self._http),
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            "managedLedgerDefaultEnsembleSize": "1",
            "managedLedgerDefaultWriteQuorum": "1",
            "managedLedgerDefaultAckQuorum": "1",
            "transactionCoordinatorEnabled": "false",
            "loadBalancerEnabled": "false",
            "numIOThreads": "2",
            "numHttpServerThreads": "8",
            "webSocketServiceEnabled": "false",
            "dbStorage_writeCacheMaxSizeMb": "16",
            "dbStorage_readAheadCacheMaxSizeMb": "16",
            "dbStorage_rocksDB_blockCacheSize": "8388608",
            "managedLedgerCacheSizeMB": "32",
            # 10 ms by default: the larger part of a single record's latency
            "managedLedgerNewEntriesCheckDelayInMillis": "0",
            "diskUsageThreshold": "0.99",
            "diskUsageWarnThreshold": "0.98",
            # the storage binds to the address it finds for the host: it stays on loopback
            "listeningInterface": "lo",
            "allowLoopback": "true",
        }

    def command(self) -> Sequence[str]:
        """The server, with its settings written anew."""
        lines = _JARS.read_text(encoding="utf-8").splitlines()
        jars = resolve_jars([line for line in lines if not line.startswith("#")], alone=True)
        settings = "".join(f"{key}={value}\n" for key, value in {**self._settings(), **self._more}.items())
        (self.directory / "standalone.conf").write_text(settings, encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(_LOG, encoding="utf-8")
        options = ["-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", QUICK_START]
        options += [part for opened in _OPENED for part in ("--add-opens", f"{opened}=ALL-UNNAMED")]
        return [
            java_program(),
            *options,
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dpulsar.allocator.exit_on_oom=true",
            "-Dio.netty.leakDetectionLevel=disabled",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
            f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
            f"-Dlog4j2.configurationFile={self.directory}/log4j2.properties",
            *("-cp", f"{jars[0].parent.absolute()}/*", "org.apache.pulsar.PulsarStandaloneStarter"),
            *("-c", str(self.directory / "standalone.conf"), "-nfw", "-nss", "-a", "127.0.0.1"),
            *("--metadata-dir", str(self.directory / "metadata")),
            *("--bookkeeper-dir", str(self.directory / "bookkeeper"), "--bookkeeper-port", str(self._storage)),
        ]
