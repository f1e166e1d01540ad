"""Flink SQL with Paimon's connector, in a JVM of its own. No cluster: a job runs in a small one inside the JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway

from lakelog.service.servers.jars import resolve_jars
from printed import printed

_PARTS = ("clients", "table-api-java-bridge", "table-planner-loader", "table-runtime", "connector-files")
FLINK = [f"org.apache.flink:flink-{part}:2.0.0" for part in _PARTS]
PAIMON = "org.apache.paimon:paimon-flink-2.0:1.4.2"


class FlinkSql:
    """A JVM with Flink and Paimon on its class path; a context manager."""

    def __init__(self) -> None:
        spark = Path(pyspark.__file__).parent / "jars"
        jars = [*resolve_jars(FLINK), *resolve_jars([PAIMON], alone=True)]
        jars += [*spark.glob("hadoop-client-*.jar"), *spark.glob("py4j-*.jar"), *spark.glob("commons-logging*.jar")]
        opens = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")]
        port = launch_gateway(classpath=":".join(map(str, jars)), javaopts=[*opens, "-Xmx1g"], die_on_exit=True)
        self.gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        api = self.gateway.jvm.org.apache.flink.table.api
        settings = api.EnvironmentSettings.newInstance().inBatchMode().build()
        self._environment = api.TableEnvironment.create(settings)
        self._catalogs = 0

    def __enter__(self) -> FlinkSql:
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.shutdown()

    def use(self, warehouse: str) -> None:
        """Makes a warehouse the current catalog."""
        self._catalogs += 1
        name = f"lake{self._catalogs}"
        self.run(f"create catalog {name} with ('type' = 'paimon', 'warehouse' = '{warehouse}')")
        self.run(f"use catalog {name}")

    def run(self, statement: str) -> Any:
        """Runs a statement, and waits for the end of its job."""
        result = self._environment.executeSql(statement)
        if result.getJobClient().isPresent():
            getattr(result, "await")()  # a word of Python
        return result

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, with values in the form of the golden files."""
        result = self._environment.executeSql(query)
        names = list(result.getResolvedSchema().getColumnNames())
        found, out = result.collect(), []
        while found.hasNext():
            row = found.next()
            out.append({name: _printed(row.getField(at)) for at, name in enumerate(names)})
        found.close()
        return out


def _printed(value: Any) -> Any:
    """As ``printed``; py4j has turned most values into those of Python, and days and times not."""
    return value.toString() if isinstance(value, JavaObject) else printed(value)
