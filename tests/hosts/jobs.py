"""The job of many parts (``cluster_job``) on three hosts: its driver on one, executors on another one, and servers."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hosts.hadoop import DataNode, NameNode, NodeManager, ResourceManager, write_settings
from hosts.network import ROOT, Network
from hosts.servers import KafkaOnHost, MasterOnHost, S3OnHost, WorkerOnHost
from lakelog import connect
from servers.spark_home import SPARK_HOME

HOSTS: Final = ("driver", "workers", "servers")
CLUSTERS: Final = ("standalone", "yarn-client", "yarn-cluster")
STORAGES: Final = ("s3", "hdfs")
LOGS: Final = ("kafka", "files")
_JOB: Final = str(ROOT / "tests" / "hosts" / "cluster_job.py")
_JOB_S: Final = 900
_SETTINGS: Final = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.yarn.am.memory": "384m",
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}


@dataclass
class JobsRun:
    """``run`` gives what the job has found, by parts; in a process that has gone ``inside`` a network namespace."""

    directory: Path
    cluster: str
    storage: str
    log: str
    parts: tuple[str, ...]
    report: Callable[[str], None]

    def run(self) -> dict[str, Any]:
        """Starts all, runs the job, reads its results from the table. Raises AssertionError with the job's output."""
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(Network(self.directory, HOSTS))

            def started(server: Any) -> Any:
                self.report(f"starting the {server.NAME}")
                return stack.enter_context(server)

            options, warehouse, checkpoints = self._storage(network, started)
            log = {"log-store.type": "files"}
            if self.log == "kafka":
                log = started(KafkaOnHost(network.hosts["servers"])).options()
            cluster, submit = self._cluster(network, started)
            given = {
                "warehouse": warehouse,
                "storage": options,
                "log": log,
                "checkpoints": checkpoints,
                "parts": self.parts,
                "local": str(network.hosts["driver"].disk / "warehouse"),
                "cluster": cluster if not submit else {},
            }
            self.report(f"running the job on {self.cluster}")
            command = network.hosts["driver"].command([*submit, *([] if submit else [sys.executable]), _JOB])
            settings = base64.b64encode(json.dumps(given).encode()).decode()
            done = subprocess.run([*command, settings], capture_output=True, text=True, timeout=_JOB_S, check=False)
            assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
            with connect(warehouse=warehouse, storage_options=options) as lake:
                rows = lake.table("db.results").scan().to_arrow().to_pylist()
            left = network.hosts["workers"].command(["ls", given["local"]])
            has_local = subprocess.run(left, capture_output=True, check=False).returncode == 0
        return {row["part"]: json.loads(row["found"]) for row in rows} | {"left on workers": has_local}

    def _storage(self, network: Network, started: Callable[[Any], Any]) -> tuple[dict[str, str], str, str]:
        """The storage options, the warehouse, and a place for checkpoints."""
        servers = network.hosts["servers"]
        is_hdfs = self.storage == "hdfs" or self.cluster != CLUSTERS[0]  # YARN brings jobs to its hosts by it
        if is_hdfs:
            uri = started(NameNode(servers)).uri
            started(DataNode(servers))
        checkpoints = f"{uri}/checkpoints" if is_hdfs else str(network.hosts["driver"].disk / "checkpoints")
        if self.storage == "hdfs":
            return {}, f"{uri}/warehouse", checkpoints
        s3 = started(S3OnHost(servers))
        return s3.options, f"s3://{s3.new_bucket()}/warehouse", checkpoints

    def _cluster(self, network: Network, started: Callable[[Any], Any]) -> tuple[dict[str, str], list[str]]:
        """The settings of the session, and the command that submits the job, if one does."""
        driver, workers, servers = (network.hosts[name] for name in HOSTS)
        if self.cluster == "standalone":
            master = started(MasterOnHost(servers))
            for number in range(2):
                started(WorkerOnHost(workers, master, number))
            return {**_SETTINGS, "spark.master": master.url}, []
        started(ResourceManager(servers))
        started(NodeManager(workers, servers))
        driver.variables["HADOOP_CONF_DIR"] = str(write_settings(driver, servers))
        settings = dict(_SETTINGS)
        for name in ("PYTHONPATH", "PYSPARK_PYTHON", "JAVA_TOOL_OPTIONS"):
            settings[f"spark.executorEnv.{name}"] = settings[f"spark.yarn.appMasterEnv.{name}"] = driver.environment()[
                name
            ]
        conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        mode = self.cluster.removeprefix("yarn-")
        return {}, [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode, *conf]
