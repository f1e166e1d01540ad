"""Runs on hosts that share nothing but the network (``hosts/network.py``); every row is counted. They need root.

usage: make hosts ARGS="chaos --minutes 10 --log kafka --seed 7"

A stream writes both stores of a table on four hosts that fail one by one: in each ``--every`` seconds of work each
victim (``hosts/run.py``) fails once, at a random time that follows from the seed. The exit code is 1 if a row was lost,
is there twice, or is not taken back.

usage: make hosts ARGS="jobs --cluster yarn-cluster --storage hdfs --log files"

A job of many parts (``hosts/cluster_job.py``) on a cluster; prints what it has found.

usage: make hosts ARGS="crowd --minutes 5 --log files --storage hdfs --ahead 3600"

Many writers of the same keys, as ``python -m chaos --writers``, on hosts whose clocks differ.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hosts.clock import clock_library
from hosts.cluster_job import PARTS
from hosts.crowd import CrowdOnHosts
from hosts.hadoop import YARN_JARS
from hosts.jobs import CLUSTERS, LOGS, STORAGES, JobsRun
from hosts.network import NoHosts, go_inside
from hosts.run import VICTIMS, HostsRun
from lakelog.service.servers.server_process import KAFKA_JARS
from servers.hdfs_cluster import JARS as HADOOP_JARS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="what", required=True)
    chaos, jobs, crowd = (kinds.add_parser(name) for name in ("chaos", "jobs", "crowd"))
    chaos.add_argument("--minutes", type=float, default=10)
    chaos.add_argument("--rate", type=int, default=500, help="changes a second")
    chaos.add_argument("--kind", choices=("changes", "upserts", "append"), default="changes")
    chaos.add_argument("--keys", type=int, default=5_000)
    chaos.add_argument("--seed", type=int, default=1)
    chaos.add_argument("--every", type=float, default=120, help="seconds of work in which each victim fails once")
    chaos.add_argument("--cut", type=float, default=60, help="seconds without connections")
    chaos.add_argument("--workers", type=int, default=2, help="workers of the cluster, of one core each")
    chaos.add_argument("--no-copy", action="store_true", help="without the job that copies the log")
    chaos.add_argument("--victims", default=",".join(VICTIMS), help="what fails, of " + ", ".join(VICTIMS))
    jobs.add_argument("--cluster", choices=CLUSTERS, default=CLUSTERS[0])
    jobs.add_argument("--storage", choices=STORAGES, default=STORAGES[0])
    jobs.add_argument("--parts", default=",".join(PARTS))
    crowd.add_argument("--minutes", type=float, default=5)
    crowd.add_argument("--writers", type=int, default=4)
    crowd.add_argument("--kind", choices=("changes", "upserts", "append"), default="changes")
    crowd.add_argument("--keys", type=int, default=12)
    crowd.add_argument("--seed", type=int, default=1)
    crowd.add_argument("--every", type=float, default=3, help="seconds between two failures")
    crowd.add_argument("--storage", choices=STORAGES, default=STORAGES[0])
    crowd.add_argument("--ahead", type=int, default=600, help="seconds by which two of the clocks are wrong")
    for kind in (chaos, jobs, crowd):
        kind.add_argument("--log", choices=LOGS, default=LOGS[0])
        kind.add_argument("--directory", type=Path, help="where the disks of the hosts stay for a look at them")
        kind.add_argument("--json", type=Path, help="a file for the results")
    given = parser.parse_args()
    try:
        library = clock_library() if given.what == "crowd" else Path()
        go_inside("hosts", sys.argv[1:], _downloads(given))
    except NoHosts as why:
        print(why, file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # all that was started is ended
    with tempfile.TemporaryDirectory(prefix="lakelog-hosts-") as temporary:
        found = _run(given, given.directory or Path(temporary), library)
    print(json.dumps(found), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if found.get("equal", True) else 1)


def _downloads(given: argparse.Namespace) -> list[Sequence[str]]:
    """The jars of the servers of a run."""
    needs_hadoop = getattr(given, "storage", "") == "hdfs" or getattr(given, "cluster", "").startswith("yarn")
    return [*([KAFKA_JARS] if given.log == "kafka" else []), *([HADOOP_JARS, YARN_JARS] if needs_hadoop else [])]


def _run(given: argparse.Namespace, directory: Path, library: Path) -> dict[str, Any]:
    def report(line: str) -> None:
        print(line, flush=True)

    if given.what == "jobs":
        return JobsRun(
            directory=directory,
            cluster=given.cluster,
            storage=given.storage,
            log=given.log,
            parts=tuple(given.parts.split(",")),
            report=report,
        ).run()
    if given.what == "crowd":
        return CrowdOnHosts(
            directory=directory / "notes",
            log=given.log,
            kind=given.kind,
            seconds=given.minutes * 60,
            writers=given.writers,
            keys=given.keys,
            seed=given.seed,
            every_s=given.every,
            report=report,
            clocks={"ahead": given.ahead, "behind": -given.ahead},
            library=library,
            storage=given.storage,
        ).run()
    return HostsRun(
        directory=directory,
        kind=given.kind,
        log=given.log,
        seconds=given.minutes * 60,
        rate=given.rate,
        keys=given.keys,
        seed=given.seed,
        every_s=given.every,
        victims=tuple(filter(None, given.victims.split(","))),
        report=report,
        roles=("writer", "tail") if given.no_copy else ("writer", "copier", "tail"),
        cut_s=given.cut,
        workers=given.workers,
    ).run()


if __name__ == "__main__":
    main()
