"""Messages in Avro come out as fastavro reads them one by one, by either way; a wrong one is never read as another."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from depth import DEPTH
from lakelog.errors import Corrupt
from lakelog.fileformat.avro_rows import avro_records
from lakelog.fileformat.messages.columns import Messages
from lakelog.fileformat.messages.encoded import encoded_rows
from lakelog.fileformat.messages.rows import message_schema
from lakelog.fileformat.messages.schemas import arrow_type, resolved

HEAD = b"\0\0\0\0\7"
LEAVES = ("boolean", "int", "long", "float", "double", "string", "bytes")
FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"))
NUMBERS = (0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31))


class World:
    """Random schemas of these leaves, and their values."""

    def __init__(self, seed: int, leaves: Sequence[str] = LEAVES) -> None:
        self.draw, self.leaves, self.names = random.Random(seed), leaves, 0

    def kind(self, depth: int = 0, odd: bool = False) -> Any:
        draw = self.draw
        sort = draw.randrange(6 if depth < 3 else 2)
        if odd and draw.random() < 0.2:
            self.names += 1
            fixed = {"type": "fixed", "name": f"F{self.names}", "size": 3}
            letters = {"type": "enum", "name": f"E{self.names}", "symbols": ["a", "b"]}
            return draw.choice([fixed, letters, {"type": "map", "values": self.kind(depth + 1)}, ["int", "string"]])
        if sort < 2:
            return draw.choice(self.leaves)
        if sort == 2:
            inner = self.kind(depth + 1, odd)
            return inner if isinstance(inner, list) else draw.choice([["null", inner], [inner, "null"]])
        if sort == 3:
            return {"type": "array", "items": self.kind(depth + 1, odd)}
        return self.record(depth + 1, odd)

    def record(self, depth: int = 0, odd: bool = False) -> Any:
        self.names += 1
        name = f"R{self.names}"
        fields = [{"name": f"f{n}", "type": self.kind(depth, odd)} for n in range(self.draw.randint(1, 4))]
        return {"type": "record", "name": name, "fields": fields}

    def value(self, kind: Any) -> Any:
        draw = self.draw
        if isinstance(kind, list):
            return self.value(draw.choice(kind))
        word = kind if isinstance(kind, str) else kind["type"]
        if word == "record":
            return {f["name"]: self.value(f["type"]) for f in kind["fields"]}
        if word == "array":
            return [self.value(kind["items"]) for _ in range(draw.choice((0, 0, 1, 2, 70)))]
        if word == "map":
            return {draw.choice("xyz"): self.value(kind["values"]) for _ in range(draw.randrange(3))}
        plain: dict[str, Any] = {
            "null": None, "boolean": draw.random() < 0.5, "int": draw.choice(NUMBERS),
            "long": draw.choice((*NUMBERS, 2**63 - 1, -(2**63))), "float": draw.choice(FLOATS),
            "double": draw.choice((*FLOATS, 1e308)), "string": draw.choice(("", "a", "ü€", "x" * 200)),
            "bytes": draw.randbytes(draw.choice((0, 1, 16))), "fixed": b"abc", "enum": draw.choice("ab"),
        }  # fmt: skip
        return plain[word]


def written(schema: Any, records: list[Any]) -> list[bytes]:
    parsed, out = fastavro.parse_schema(schema), []
    for record in records:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, record)
        out.append(HEAD + sink.getvalue())
    return out


def by_fastavro(schema: Any, messages: list[bytes], types: dict[str, pa.DataType]) -> dict[str, list[Any]]:
    parsed = fastavro.parse_schema(schema)
    records: list[Any] = [fastavro.schemaless_reader(io.BytesIO(m[len(HEAD) :]), parsed, None) for m in messages]
    return {name: pa.array([record[name] for record in records], kind).to_pylist() for name, kind in types.items()}


def has_unknown_type(schema: Any, source: io.BytesIO) -> bool:
    """Whether a message has the number of a type that its union does not have; it is read up to there."""
    if isinstance(schema, list):
        number = fastavro.schemaless_reader(source, "long", None)
        return not 0 <= number < len(schema) or has_unknown_type(schema[number], source)
    word = schema if isinstance(schema, str) else schema["type"]
    if isinstance(word, list | dict):
        return has_unknown_type(word, source)
    if word == "record":
        return any(has_unknown_type(field["type"], source) for field in schema["fields"])
    if word != "array":
        fastavro.schemaless_reader(source, schema, None)
        return False
    while count := fastavro.schemaless_reader(source, "long", None):
        if count < 0:
            fastavro.schemaless_reader(source, "long", None)
        if any(has_unknown_type(schema["items"], source) for _ in range(abs(count))):
            return True
    return False


@pytest.mark.parametrize("odd", [False, True])
def test_messages_are_as_fastavro_reads_them(odd: bool) -> None:
    fast = 0
    for seed in range(DEPTH.cases(2_000)):
        world = World(DEPTH.seed + seed)
        schema = world.record(odd=odd)
        messages = written(schema, [world.value(schema) for _ in range(world.draw.choice((1, 2, 30)))])
        types = {}
        for field in resolved(schema)["fields"]:
            try:
                types[field["name"]] = arrow_type(field["type"])
            except Corrupt:
                assert odd, "a union of several types"
        reader = Messages(resolved(schema))
        values = pa.array(messages, pa.large_binary())
        expected = repr(by_fastavro(schema, messages, types))
        assert repr({n: c.to_pylist() for n, c in reader.columns(values, types, len(HEAD)).items()}) == expected, seed
        if reader.is_plain:
            read = reader.by_polars(values, types, len(HEAD))
            assert read is not None, (seed, schema)
            assert repr({n: c.to_pylist() for n, c in read.items()}) == expected, seed
            fast += 1
    assert fast or odd


def test_a_spoiled_message_is_an_error_or_what_fastavro_reads() -> None:
    outcomes = {"same": 0, "refused": 0, "unknown type": 0}
    for seed in range(DEPTH.cases(3_000)):
        world = World(DEPTH.seed + seed, LEAVES[1:])  # a byte that is no boolean is false to polars, true to fastavro
        schema = world.record()
        messages = written(schema, [world.value(schema) for _ in range(4)])
        at = world.draw.randrange(4)
        body = bytearray(messages[at])
        place = world.draw.randrange(len(HEAD), len(body) + 1)
        fault = world.draw.randrange(4)
        if fault == 0:
            del body[place:]
        elif fault == 1:
            body[place:place] = world.draw.randbytes(world.draw.randint(1, 3))
        elif fault == 2:
            body += messages[at][len(HEAD) :]
        elif place < len(body):
            body[place] ^= 1 << world.draw.randrange(8)
        messages[at] = bytes(body)
        types = {field["name"]: arrow_type(field["type"]) for field in resolved(schema)["fields"]}
        try:
            found = Messages(resolved(schema)).columns(pa.array(messages, pa.large_binary()), types, len(HEAD))
        except (Corrupt, pa.ArrowException):
            outcomes["refused"] += 1
            continue
        if has_unknown_type(schema, io.BytesIO(messages[at][len(HEAD) :])):
            outcomes["unknown type"] += 1  # polars reads any but null as the other; fastavro counts -1 from the end
            continue
        expected = by_fastavro(schema, messages, types)
        outcomes["same"] += 1
        assert repr({n: c.to_pylist() for n, c in found.items()}) == repr(expected), (seed, schema, messages[at])
    assert outcomes["same"] and outcomes["refused"], outcomes


LEAF_VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.int8(): (-128, 127, 0), pa.int32(): NUMBERS, pa.int64(): (*NUMBERS, 2**63 - 1, -(2**63)),
    pa.bool_(): (True, False), pa.float32(): FLOATS, pa.float64(): FLOATS, pa.string(): ("", "ü€", "x" * 200),
    pa.binary(): (b"", b"\0\xff", b"y" * 70), pa.date32(): (0, -1, 20_000), pa.time32("ms"): (0, 86_399_999),
    pa.timestamp("us", "UTC"): (0, -1, 2**60), pa.timestamp("ns"): (0, -(2**62)),
    pa.decimal128(38, 2): tuple(Decimal(n) / 4 for n in (0, 1, -1, 512, -512, -516, 1020, 10**30, -(10**30))),
}  # fmt: skip


def test_rows_by_columns_are_the_bytes_of_fastavro() -> None:
    for seed in range(DEPTH.cases(1_000)):
        draw = random.Random(DEPTH.seed + seed)
        kinds = draw.sample(sorted(LEAF_VALUES, key=str), draw.randint(1, 5))
        count = draw.choice((0, 1, 2, 50))
        columns = []
        for kind in kinds:
            values = [draw.choice((None, *LEAF_VALUES[kind])) for _ in range(count + 3)]
            columns.append(pa.array(values, kind).slice(2, count))
        batch = pa.RecordBatch.from_arrays(columns, [f"c{n}" for n in range(len(columns))])
        schema = resolved(message_schema(batch.schema, "Value"))
        assert encoded_rows(batch).to_pylist() == Messages(schema).messages(avro_records(batch)), (seed, batch)
