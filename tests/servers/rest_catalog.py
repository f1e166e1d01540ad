"""The server of Apache Paimon's own tests of its REST catalog (``RESTCatalogServer``), in a JVM of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakelog.service.servers.jars import resolve_jars

_PAIMON = ("org.apache.paimon:paimon-bundle:1.4.2", "com.squareup.okhttp3:mockwebserver:4.12.0")
_TESTS = ("org.apache.paimon:paimon-core:1.4.2:tests",)


@dataclass(frozen=True)
class RestServer:
    """A server of one warehouse."""

    java: Any
    url: str
    warehouse: str
    token: str

    @property
    def options(self) -> dict[str, str]:
        """The catalog options that reach it."""
        return {
            "catalog.type": "rest",
            "catalog.uri": self.url,
            "catalog.token": self.token,
            "catalog.warehouse": self.warehouse,
        }

    @property
    def paimon_options(self) -> dict[str, str]:
        """The options by which Paimon's clients reach it."""
        return {
            "metastore": "rest",
            "uri": self.url,
            "warehouse": self.warehouse,
            "token.provider": "bear",
            "token": self.token,
        }

    def stop(self) -> None:
        """Ends it; its JVM stays."""
        self.java.shutdown()


class RestServers:
    """One JVM for the servers of all tests; a context manager."""

    token = "lake-hush-token"

    def __enter__(self) -> RestServers:
        spark = Path(pyspark.__file__).parent / "jars"
        jars = [*resolve_jars(_PAIMON), *resolve_jars(_TESTS, alone=True)]
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        port = launch_gateway(classpath=":".join([*map(str, jars), f"{spark}/*"]), javaopts=options, die_on_exit=True)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        compiler = self._gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setTargetVersion(8)
        compiler.cook(Path(__file__).with_name("RestServers.java").read_text(encoding="utf-8"))
        self._java = compiler.getClassLoader().loadClass("RestServers").newInstance()
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()

    def open(self, directory: str, warehouse: str, more: Mapping[str, str] | None = None) -> RestServer:
        """Starts a server that puts tables below a directory; ``more`` is its configuration for clients."""
        Path(directory).mkdir(parents=True, exist_ok=True)
        java = self._java.open(directory, warehouse, self.token, dict(more or {}))
        return RestServer(java, java.getUrl().rstrip("/"), warehouse, self.token)

    def lose_answer_of_next_commit(self) -> None:
        """The next commit to any of the servers is done, and its answer says that it was not."""
        self._java.loseAnswerOfNextCommit()
