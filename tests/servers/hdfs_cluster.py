"""A real HDFS: Hadoop's own mini cluster, one name node and two data nodes in one Java process.

A file is closed when the name node knows its last block. With one data node the client is faster than that report and
waits half a second for each file; with two, as in clusters that people run, it need not. As some clusters are set,
files may be closed before their last block is reported; readers wait for it.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from lakelog.service.servers.jars import resolve_jars
from lakelog.service.servers.server_process import ServerProcess, free_port, java_program

JARS = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.apache.hadoop:hadoop-client-runtime:3.5.0",
    "org.apache.hadoop:hadoop-client-api:3.5.0",
    "org.slf4j:slf4j-simple:1.7.36",
)


class HdfsCluster(ServerProcess):
    """The first start ever downloads the jars (104 MB)."""

    NAME = "HDFS cluster"

    def __init__(self, directory: str | Path) -> None:
        super().__init__(directory)
        self._classpath = f"{resolve_jars(JARS)[0].parent}/*"
        self.port, self._http = free_port(), free_port()
        self.uri = f"hdfs://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        data = self.directory / "target" / "test"
        settings = {
            "hdfs.minidfs.basedir": f"{data}/dfs",
            "dfs.permissions.enabled": "false",
            "dfs.replication": "2",
            "dfs.namenode.file.close.num-committed-allowed": "1",
        }
        return [
            java_program(),
            *("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dtest.build.data={data}/data",
            f"-Dhadoop.log.dir={self.directory}",
            *(
                "-cp",
                self._classpath,
                "org.apache.hadoop.mapreduce.MiniHadoopClusterManager",
                "-nomr",
                "-datanodes",
                "2",
            ),
            *([] if data.exists() else ["-format"]),
            *("-nnport", str(self.port), "-nnhttpport", str(self._http)),
            *(part for key, value in settings.items() for part in ("-D", f"{key}={value}")),
        ]

    def is_ready(self) -> bool:
        question = "Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/jmx?qry={question}", timeout=3) as answer:
                state = json.load(answer)["beans"][0]
        except (OSError, ValueError, IndexError, KeyError):
            return False
        return bool(state["NumLiveDataNodes"] >= 1 and state["FSState"] == "Operational")
