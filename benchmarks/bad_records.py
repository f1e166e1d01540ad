"""A follower on Kafka among garbage: it is killed again and again, and in the end good and rejected are what was sent.

usage: bad_records.py [--minutes 10] [--kills 10] [--rate 2000]

One record of a hundred is bad: no JSON, a text for a number, a number with a tiny exponent. Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog import connect
from lakelog.service.servers.server_process import KafkaBroker

TOPIC = "shop.public.events"
BAD = (b"garbage %d \xff", b'{"before":null,"after":{"id":"x%d","price":"1.5"},"op":"c"}',
       b'{"before":null,"after":{"id":%d,"price":"1E-1000000000"},"op":"c"}')  # fmt: skip
GOOD = b'{"before":null,"after":{"id":%d,"price":"1.50"},"op":"c"}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rate", type=int, default=2000, help="records per second")
    given = parser.parse_args()
    place = tempfile.mkdtemp(prefix="lakelog-bad-records-")
    with KafkaBroker(f"{place}/kafka") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(20)
        lake = connect(warehouse=f"{place}/warehouse")
        lake.sql(
            "create table db.t (id bigint, price decimal(10, 2)) using lakelog tblproperties ('bucket' = '1', "
            f"'bucket-key' = 'id', 'log-store.enabled' = 'true', 'log-store.topic' = '{TOPIC}', "
            f"'log-store.address' = '{broker.bootstrap}', 'log-store.adopt' = 'true', 'commit.interval' = '500 ms', "
            "'on-bad-record' = 'keep')"
        )
        sent = {"good": 0, "bad": 0}
        stop = threading.Event()

        def send() -> None:
            producer, chance, begun = (
                Producer({"bootstrap.servers": broker.bootstrap}),
                random.Random(7),
                time.monotonic(),
            )
            for number in itertools.count():
                is_bad = chance.random() < 0.01
                form = chance.choice(BAD) if is_bad else GOOD
                producer.produce(TOPIC, form % number, partition=0)
                sent["bad" if is_bad else "good"] += 1
                if number % 100 == 99:
                    producer.poll(0)
                    time.sleep(max(0.0, begun + number / given.rate - time.monotonic()))
                    if stop.is_set():
                        break
            assert producer.flush(60) == 0

        sending = threading.Thread(target=send)
        sending.start()
        command = [sys.executable, "-m", "lakelog", "follow", "db.t", "--warehouse", f"{place}/warehouse"]
        turn, chance, codes = given.minutes * 60 / (given.kills + 1), random.Random(11), Counter[int]()
        for _ in range(given.kills):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as follower:
                try:
                    follower.wait(turn * chance.uniform(0.7, 1.3))
                except subprocess.TimeoutExpired:
                    follower.kill()
            codes[follower.returncode] += 1
        stop.set()
        sending.join()
        last = subprocess.run([*command, "--stop", "latest"], check=False, stdout=subprocess.DEVNULL)
        ids = Counter(lake.table("db.t").scan(columns=["id"]).to_arrow()["id"].to_pylist())
        rejected = Counter(lake.table("db.t$rejected").scan(columns=["offset"]).to_arrow()["offset"].to_pylist())
        print(
            json.dumps(
                {
                    "minutes": given.minutes,
                    "sent": sent,
                    "exit codes": dict(codes),
                    "last exit code": last.returncode,
                    "good rows": sum(ids.values()),
                    "rejected rows": sum(rejected.values()),
                    "rows twice": sum(n - 1 for n in (*ids.values(), *rejected.values())),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
