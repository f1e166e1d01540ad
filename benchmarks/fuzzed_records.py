"""Random records that lakelog appends to Kafka in batches, read by every client: all must see the same bytes.

usage: fuzzed_records.py [--records 10000000] [--seed N]

The writer and each reader make a digest of all records in their order: offset, key, value, headers. The readers are
lakelog's by columns, lakelog's record by record, confluent-kafka (``check.crcs``), and Kafka's Java client
(``check.crcs``; needs a JDK). Keys and values are null, empty, short or up to 70 KB, alike for a while and then not.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from lakelog.logstore.base import LogLocation, LogReader, Records
from lakelog.logstore.kafka.batch_appender import BatchAppender
from lakelog.logstore.kafka.batch_reader import BatchReader
from lakelog.logstore.kafka.record_clients import RecordReader
from lakelog.logstore.kafka.system import KafkaLogSystem
from lakelog.service.servers.jars import resolve_jars
from lakelog.service.servers.server_process import KafkaBroker

_NAME = b"lakelog"
_JARS = ("org.apache.kafka:kafka-clients:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
Row = tuple[bytes | None, bytes | None, bytes | None]
"""Key, value and header."""


class Digest:
    """The number and the checksum of records."""

    def __init__(self) -> None:
        self.count = self.crc = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Adds records in their order."""
        parts: list[bytes] = []
        for key, value, header in rows:
            self.count += 1
            for part in (key, value, _NAME, header):
                parts += [struct.pack(">i", -1)] if part is None else [struct.pack(">i", len(part)), part]
        self.crc = zlib.crc32(b"".join(parts), self.crc)

    def __str__(self) -> str:
        return f"{self.count} {self.crc}"


def drawn(rng: random.Random) -> list[Row]:
    """Some records: one, or a few thousand that mostly are alike."""
    rows: list[Row] = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.randrange(7)
        keyed, text = rng.random() < 0.7, rng.randbytes(60)
        for n in range(rng.choice([1, 3, 60, 900, 3_000])):
            value: bytes | None = b'{"before":null,"after":{"id":%d,"name":"%d"},"op":"c"}' % (n, rng.getrandbits(40))
            if kind == 0:
                value = None
            elif kind == 1:
                value = text[: rng.randrange(60)]
            elif kind == 2 and n % 700 == 0:
                value = text[:1] * rng.randrange(70_000)
            key = b"%d" % rng.getrandbits(rng.randrange(1, 50)) if keyed else None
            rows.append((key, value, b"1|d|w|7|a" if kind != 3 else b"1|x|w|7|a|%d|-1" % n))
    return rows


def append(location: LogLocation, count: int, seed: int) -> Digest:
    """Appends at least this number of records."""
    rng, digest, appender = random.Random(seed), Digest(), BatchAppender(location)
    while digest.count < count:
        rows = drawn(rng)
        keys, values, headers = zip(*rows, strict=True)
        same = headers[0] if len(set(headers)) == 1 else list(headers)
        records = Records(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), same)
        appender.append_all([(0, records)])
        digest.add(rows)
    appender.flush()
    appender.close()
    return digest


def by_reader(reader: LogReader, count: int) -> Digest:
    """What a reader of lakelog sees."""
    digest = Digest()
    for chunk in reader.chunks(0, 0, count, 100_000):
        assert chunk.column("offset").to_pylist() == list(range(digest.count, digest.count + chunk.num_rows))
        digest.add(zip(*(chunk.column(name).to_pylist() for name in ("key", "value", "header")), strict=True))
    reader.close()
    return digest


def by_confluent(location: LogLocation, count: int) -> Digest:
    """What confluent-kafka sees."""
    digest = Digest()
    consumer = Consumer({"bootstrap.servers": location.address, "group.id": "fuzzed", "check.crcs": True})
    consumer.assign([TopicPartition(location.topic, 0, 0)])
    while digest.count < count:
        found = consumer.consume(10_000, 1)
        assert [m.offset() for m in found] == list(range(digest.count, digest.count + len(found)))
        assert all([name for name, _ in m.headers()] == [_NAME.decode()] for m in found)
        digest.add((m.key(), m.value(), m.headers()[0][1]) for m in found)
    consumer.close()
    return digest


def by_java(location: LogLocation, count: int) -> str:
    """What Kafka's Java client sees."""
    jars = ":".join(map(str, resolve_jars(_JARS)))
    program = Path(__file__).with_name("PlainConsumer.java")
    command = ["java", "-Xmx1g", "-cp", jars, str(program), location.address, location.topic, str(count)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def main() -> None:
    """Runs it; exits with 1 if a reader saw anything else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    given = parser.parse_args()
    with KafkaBroker(tempfile.mkdtemp(prefix="lakelog-fuzz-")) as broker:
        location = KafkaLogSystem().create(LogLocation("kafka", broker.bootstrap, "fuzzed", 1))
        written = append(location, given.records, given.seed)
        readers: dict[str, Callable[[], object]] = {
            "lakelog by columns": lambda: by_reader(BatchReader(location), written.count),
            "lakelog record by record": lambda: by_reader(RecordReader(location), written.count),
            "confluent-kafka": lambda: by_confluent(location, written.count),
            "Java client": lambda: by_java(location, written.count),
        }
        print(json.dumps({"seed": given.seed, "written": str(written)}), flush=True)
        wrong = 0
        for name, read in readers.items():
            begun = time.perf_counter()
            seen = str(read()).strip()
            wrong += seen != str(written)
            seconds = round(time.perf_counter() - begun, 1)
            print(json.dumps({"reader": name, "seen": seen, "equal": seen == str(written), "s": seconds}), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
