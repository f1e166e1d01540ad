"""A consumer of debezium-json that knows nothing of lakelog: envelopes of ``before``, ``after`` and ``op`` in a topic.

Written from the public descriptions alone, Debezium's change event and Flink's debezium-json and json formats, on
confluent-kafka and the standard library. Tests compare with it what lakelog reads of its own tables.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

Row = dict[str, Any]
Kind = Any
"""A column's type: a word (of SQL, and ``nanoseconds``), ``["array", of]``, ``["map", key, value]``, or a dict of the
fields of a row."""

_SILENCE_S = 30.0


def messages(bootstrap: str, topic: str) -> Iterator[bytes | None]:
    """The values of all messages that the topic has now, each partition in its order."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "plain", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_SILENCE_S).topics[topic].partitions
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in partitions}
        left = {p: end for p, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in left])
        while left:
            message = consumer.poll(_SILENCE_S)
            if message is None:
                raise TimeoutError(f"topic {topic} should have messages in partitions {sorted(left)}")
            if message.error() is not None:
                raise RuntimeError(message.error())
            partition, offset = message.partition(), message.offset()
            if partition not in left or offset >= left[partition]:
                continue
            yield message.value()
            if offset + 1 == left[partition]:
                del left[partition]
    finally:
        consumer.close()


def changes(value: bytes | None) -> list[tuple[str, Row]]:
    """What a message says: (row kind, row) in order; a message without a value is a tombstone and says nothing."""
    if value is None:
        return []
    envelope = json.loads(value)
    operation = envelope["op"]
    if operation in ("c", "r"):
        return [("+I", envelope["after"])]
    if operation == "u":
        return [("-U", envelope["before"]), ("+U", envelope["after"])]
    if operation == "d":
        return [("-D", envelope["before"])]
    raise ValueError(f"op {operation!r} is none of c, r, u and d")


def folded(values: Iterable[bytes | None], keys: Sequence[str]) -> dict[Hashable, Row]:
    """The table with a primary key that the messages lead to: the newest row of each key."""
    table: dict[Hashable, Row] = {}
    for value in values:
        for kind, row in changes(value):
            key = tuple(row[name] for name in keys)
            if kind in ("+I", "+U"):
                table[key] = row
            elif kind == "-D":
                table.pop(key, None)
    return table


def added_up(values: Iterable[bytes | None]) -> Counter[str]:
    """The table without a key that the messages lead to: row (as JSON) → how often, which may be less than nothing."""
    table: Counter[str] = Counter()
    for value in values:
        for kind, row in changes(value):
            table[json.dumps(row)] += 1 if kind[0] == "+" else -1
    return Counter({row: count for row, count in table.items() if count})


def typed(row: Row, kinds: Mapping[str, Kind]) -> Row:
    """A row as JSON has it, with values of its types."""
    return {name: _typed(row[name], kind) for name, kind in kinds.items()}


def _typed(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if isinstance(kind, Mapping):
        return typed(value, kind)
    if not isinstance(kind, str):
        if kind[0] == "array":
            return [_typed(element, kind[1]) for element in value]
        return sorted((_typed(key, kind[1]), _typed(held, kind[2])) for key, held in value.items())
    return _SCALARS[kind](value)


def _as_is(value: Any) -> Any:
    return value


def _instant(value: str) -> dt.datetime:
    if not value.endswith("Z"):
        raise ValueError(f"{value!r} does not say that it is in UTC")
    return dt.datetime.fromisoformat(value)


def _single(value: Any) -> float:
    """A number of single precision, as JSON has it in few digits."""
    return float(struct.unpack("f", struct.pack("f", float(value)))[0])


def _nanoseconds(value: str) -> int:
    """A timestamp as nanoseconds since 1970, which Python's own do not hold."""
    whole, _, fraction = value.partition(".")
    since = dt.datetime.fromisoformat(whole) - dt.datetime(1970, 1, 1)
    return (since.days * 86_400 + since.seconds) * 10**9 + int(fraction.ljust(9, "0"))


_SCALARS = {
    "boolean": _as_is,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
    "float": _single,
    "double": float,
    "string": _as_is,
    "decimal": Decimal,
    "binary": base64.b64decode,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "timestamp_ltz": _instant,
    "nanoseconds": _nanoseconds,
}
