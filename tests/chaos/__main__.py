"""A stream writes both stores of a table while its processes and the log's server are killed; every row is counted.

usage: make chaos ARGS="--minutes 10 --rate 2000 --log kafka --append --seed 7"

A streaming job on Spark with executors in processes of their own writes ``rate`` changes a second; a job copies the log
into a second table, and a tail follows it without Spark. In each ``--every`` seconds of work each victim
(``chaos/kills.py``) is killed once, at a random time that follows from the seed. In the end what was sent is compared,
row by row, with what each reader has. The exit code is 1 when a row was lost, is there twice, or is not taken back,
and 2 when the server has lost its own data, so that nothing can be said.

usage: make chaos ARGS="--writers 4 --minutes 10 --log embedded --append --seed 7"

Many writers (``chaos/crowd.py``): so many batch writers and two streaming ones change the same few keys, beside a
compactor, ``lakelog optimize`` and readers; each of them is killed, or stopped for longer than its lease. In the end
one order must explain every answer that they got, and all readings of the table must be one.

usage: make chaos ARGS="--views --minutes 10 --seed 7"

Materialized views (``chaos/views.py``): two processes refresh views on three levels while their tables change, and a
checker compares snapshots and logs of the views with their queries; each process is killed, or stopped for seconds.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

from chaos.crowd import Crowd
from chaos.kills import VICTIMS
from chaos.run import Chaos
from chaos.servers import LOGS, ServerBroken
from chaos.views import Views
from servers.s3_server import S3Server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=int, default=2_000, help="changes a second")
    parser.add_argument("--log", choices=LOGS, default="kafka")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--keyed", dest="kind", action="store_const", const="changes", default="changes")
    kind.add_argument("--upserts", dest="kind", action="store_const", const="upserts")
    kind.add_argument("--append", dest="kind", action="store_const", const="append")
    parser.add_argument("--keys", type=int, help="20,000 by default, 12 of many writers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every",
        type=float,
        help="seconds of work in which each victim is killed once (60); of many writers between two kills or stops (3)",
    )
    parser.add_argument("--victims", default=",".join(VICTIMS), help="what is killed, of " + ", ".join(VICTIMS))
    parser.add_argument("--writers", type=int, help="many writers: so many batch writers, and two streaming ones")
    parser.add_argument("--views", action="store_true", help="materialized views, which two processes refresh")
    parser.add_argument(
        "--spark", action="store_true", help="of many writers, one streaming writer is a query of Spark"
    )
    parser.add_argument("--content", choices=("input", "changes"), default="input", help="of the log of many writers")
    parser.add_argument("--s3", action="store_true", help="of many writers, the warehouse is in an S3 server")
    parser.add_argument("--directory", type=Path, help="where tables, checkpoints and logs stay for a look at them")
    parser.add_argument("--json", type=Path, help="a file for the results")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # all that was started is ended
    with tempfile.TemporaryDirectory(prefix="lakelog-chaos-") as temporary:
        chaos = _chosen(given, given.directory or Path(temporary))
        try:
            found = chaos.run()
        except ServerBroken as why:
            print(why, file=sys.stderr)
            sys.exit(2)
    print(json.dumps(found), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if found["equal"] else 1)


def _chosen(given: argparse.Namespace, directory: Path) -> Chaos | Crowd | Views:
    """The run that the arguments ask for."""

    def report(line: str) -> None:
        print(line, flush=True)

    seconds = given.minutes * 60
    if given.views:
        return Views(directory=directory, seconds=seconds, seed=given.seed, every_s=given.every or 6, report=report)
    if given.writers:
        return Crowd(
            directory=directory,
            kind=given.kind,
            log=given.log,
            seconds=seconds,
            writers=given.writers,
            keys=given.keys or 12,
            seed=given.seed,
            every_s=given.every or 3,
            spark=given.spark,
            content=given.content,
            store=S3Server(directory / "s3") if given.s3 else None,
            report=report,
        )
    return Chaos(
        directory=directory,
        kind=given.kind,
        log=given.log,
        seconds=seconds,
        rate=given.rate,
        keys=given.keys or 20_000,
        seed=given.seed,
        every_s=given.every or 60,
        victims=tuple(filter(None, given.victims.split(","))),
        report=report,
    )


if __name__ == "__main__":
    main()
