"""Flink's debezium-json, the real one, in a JVM of its own. No cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

VERSION = "2.1.0"
JARS = [f"org.apache.flink:flink-{part}:{VERSION}" for part in ("json", "core", "table-api-java", "table-runtime")]


class FlinkJson:
    """A JVM with Flink's formats on its class path; a context manager."""

    def __init__(self, jars: list[Path]) -> None:
        spark = Path(pyspark.__file__).parent / "jars"
        compiler_and_gateway = [*spark.glob("janino-*.jar"), *spark.glob("commons-compiler-*.jar")]
        compiler_and_gateway += spark.glob("py4j-*.jar")
        port = launch_gateway(classpath=":".join(map(str, [*jars, *compiler_and_gateway])), die_on_exit=True)
        self.gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        compiler = self.gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setTargetVersion(8)
        compiler.cook(Path(__file__).with_name("DebeziumRows.java").read_text(encoding="utf-8"))
        self._rows = compiler.getClassLoader().loadClass("DebeziumRows").newInstance()

    def __enter__(self) -> FlinkJson:
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.shutdown()

    def read(self, row_type: str, messages: Sequence[bytes | None]) -> list[tuple[str, list[Any]]]:
        """(row kind, values) of what the messages say, values in the form of the golden files."""
        given = self.gateway.jvm.java.util.ArrayList()
        for message in messages:
            given.add(message)
        return [(kind, values) for kind, values in json.loads(self._rows.read(row_type, given))]
