"""Records that an attacker could put into a log, drawn from a seed: ``python tests/property/hostile_records.py``.

usage: hostile_records.py [--records N] [--seed SEED] [--format NAME]

A record is one that lakelog or a connector could have written, with faults: other values at any place of its JSON,
other columns and encodings of its Arrow message, bytes flipped, cut, or joined with another one. Each is decoded, and
passed to all that healing and transactional reads do with values. What comes out is rows or an error that readers treat
as a bad record; the process lives, and its memory stays small.
"""

from __future__ import annotations

import argparse
import base64
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.connect_columns import Encodings
from lakelog.logstore.encoding.record_format import MALFORMED, LogFormat
from lakelog.logstore.formats import LOG_FORMATS, log_format
from lakelog.logstore.formats.debezium_json import DebeziumJson
from lakelog.paimon.types.variant import VARIANT
from ready_formats import ready_format

MIB: Final = 1 << 20
HEADER: Final = b"1|d|w|0|a"
_TYPES: Final = {
    "id": pa.int64(), "tiny": pa.int8(), "flag": pa.bool_(), "x": pa.float64(), "f": pa.float32(), "text": pa.string(),
    "data": pa.binary(), "fixed": pa.binary(4), "price": pa.decimal128(10, 2), "huge": pa.decimal128(38, 18),
    "day": pa.date32(), "clock": pa.time32("ms"), "at": pa.timestamp("ms"), "exact": pa.timestamp("us", "UTC"),
    "nano": pa.timestamp("ns"), "tags": pa.list_(pa.string()),
    "place": pa.struct([("a", pa.int32()), ("b", pa.date32())]),
    "sums": pa.map_(pa.string(), pa.decimal128(20, 3)), "numbered": pa.map_(pa.int32(), pa.int64()), "any": VARIANT,
    "deep": pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.float64())))])),
}  # fmt: skip
_TEXTS: Final = (
    "", "x", "NaN", "Infinity", "1e999999999", "-1e-999999999", "9" * 400, "0." + "0" * 5_000 + "1", "1" * 77, "١٢",
    "0001-01-01", "9999-12-31 23:59:59.999999", "99999-99-99", "24:00:00", "-1", "1970-01-01T00:00:00Z", "\u0000",
    "é" * 99, "__debezium_unavailable_value", "AQ==", "////", "A" * 4_000, "{}", "[" * 5_000, '{"a":' * 500, "null",
    "2024-13-01", "+00:00",
)  # fmt: skip
_RAW: Final = (
    b"1e400", b"-0", b"9" * 5_000, b"1." + b"0" * 5_000, b"1e-999999999999", b"1E+" + b"9" * 30, b"NaN", b"01", b"--1",
    b"[" * 3_000 + b"]" * 3_000, b'{"a":' * 2_000 + b"1" + b"}" * 2_000, b'"\\ud800"', b'"\\u0000"', b'"\xff"', b"true",
    b'{"scale":-2147483648,"value":"AQ=="}', b'{"scale":9223372036854775807,"value":"AQ=="}', b'{"key":1}', b"[[]]",
)  # fmt: skip
_NAMES: Final = (
    "io.debezium.time.Date", "io.debezium.time.NanoTimestamp", "io.debezium.time.MicroTime", "io.debezium.data.Json",
    "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal", "",
    "io.debezium.time.ZonedTimestamp",
)  # fmt: skip
_MARKS: Final = {f"@{n}@".encode(): raw for n, raw in enumerate(_RAW)}


class Draw(random.Random):
    """Draws, and the share of values that are odd in the present record."""

    odd = 0.0


@dataclass
class Found:
    """What some records came to; ``wrong`` are the errors that no reader treats."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    peak: int = 0


def schemas(draw: Draw) -> pa.Schema:
    """Some columns of a table, ``id`` among them."""
    names = draw.sample(sorted(_TYPES), draw.randint(1, 6))
    return pa.schema([(name, _TYPES[name]) for name in dict.fromkeys(["id", *names])])


def hostile(draw: Draw, name: str, schema: pa.Schema) -> bytes:
    """A record of a format."""
    makers = {"arrow": _message, "avro": _avro, "canal-json": _canal, "maxwell-json": _maxwell, "plain-json": _plain}
    value = makers.get(name, _envelope)(draw, schema)
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        value = _spoiled(draw, value)
    return value


def _spoiled(draw: Draw, value: bytes) -> bytes:
    at, data = draw.randrange(len(value) + 1), bytearray(value)
    fault = draw.randrange(5)
    if fault == 0:
        return value[:at]
    if fault == 1 and at < len(value):
        data[at] ^= 1 << draw.randrange(8)
    elif fault == 2:
        numbers = (b"\xff" * 8, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80")
        data[at : at + draw.choice((1, 4, 8))] = draw.choice(numbers)
    elif fault == 3:
        data[at:at] = draw.choice((b"\xff\xff\xff\xff", b"{", b"}", b'"', b"\\", b"\n", b"null", draw.randbytes(16)))
    else:
        data += value[:at]
    return bytes(data)


def _leaf(draw: Draw) -> Any:
    return draw.choice(
        (
            None, True, 0, -1, 2**31, 2**63 - 1, -(2**63), 1.5, 1e308, [], {}, [None], {"": None},
            draw.choice(_TEXTS), f"@{draw.randrange(len(_RAW))}@", [draw.choice(_TEXTS)] * 3,
            {"a": draw.choice(_TEXTS)}, [{"key": "k", "value": 1}], draw.randint(-(2**62), 2**62),
        )
    )  # fmt: skip


_USUAL: Final[dict[Callable[[pa.DataType], bool], tuple[Any, ...]]] = {
    pa.types.is_boolean: (True, False),
    pa.types.is_integer: (0, 1, -5, 100),
    pa.types.is_floating: (1.5, 7, "NaN"),
    pa.types.is_decimal: (1.5, "2.25", 7, "-0.5"),
    pa.types.is_date: ("2024-02-29", 20_000),
    pa.types.is_time: ("12:30:00.5", "00:00:00"),
    pa.types.is_timestamp: ("2024-02-29 12:30:00.123", "2024-02-29T12:30:00.123Z", "11999-01-01 00:00:00"),
}


def _usual(draw: Draw, kind: pa.DataType) -> Any:
    """A value as a connector writes it."""
    if draw.random() < draw.odd:
        return _leaf(draw)
    if pa.types.is_list(kind):
        return [_usual(draw, kind.value_type) for _ in range(draw.randrange(3))]
    if kind == VARIANT:
        return orjson.dumps(draw.choice(([1, {"a": None}], "x", 5))).decode()
    if pa.types.is_struct(kind):
        return {one.name: _usual(draw, one.type) for one in kind}
    if pa.types.is_map(kind):
        return {draw.choice("ab1"): _usual(draw, kind.item_type)}
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return base64.b64encode(draw.randbytes(4)).decode()
    usual = next((values for test, values in _USUAL.items() if test(kind)), ("text", "é"))
    return draw.choice(usual)


def _envelope(draw: Draw, schema: pa.Schema) -> bytes:
    images = [{one.name: _usual(draw, one.type) for one in schema} for _ in range(2)]
    images = [image if draw.random() > draw.odd else draw.choice((None, _leaf(draw))) for image in images]
    change = {"before": images[0], "after": images[1], "op": draw.choice(("c", "u", "d", "r"))}
    if draw.random() < draw.odd:
        change["op"] = draw.choice(("t", "m", None, 7, "x", ["c"]))
    if draw.random() < draw.odd:
        change[draw.choice(("before", "after", "op", "status", "payload", "schema"))] = _leaf(draw)
    if draw.random() < 0.4:
        change = {
            "schema": _connector_schema(draw, schema),
            "payload": change if draw.random() > draw.odd else _leaf(draw),
        }
    return _raw(draw, orjson.dumps(change))


def _connector_schema(draw: Draw, schema: pa.Schema) -> Any:
    def of(name: str) -> Any:
        if draw.random() < draw.odd / 4:
            return _leaf(draw)
        kinds, names = ("int32", "int64", "bytes", "string", "struct", "array", "double", "boolean", "map", ""), _NAMES
        if draw.random() > draw.odd:
            kinds, names = ("string", ""), ("",)
        scale = {"scale": draw.choice(_SCALES)}
        made = {"field": name, "type": draw.choice(kinds), "name": draw.choice(names), "parameters": scale}
        if draw.random() < draw.odd:
            nested = {"type": "array", "items": {"type": "int64"}}
            made["items"] = draw.choice(({"type": "string"}, nested, _leaf(draw)))
        if draw.random() < draw.odd:
            made["fields"] = draw.choice(([{"field": "a", "type": "int32"}], [_leaf(draw)], _leaf(draw)))
        return made

    rows = [of(one.name) for one in schema]
    parts = [{"field": part, "type": "struct", "fields": rows} for part in ("before", "after")]
    return {"type": "struct", "fields": parts} if draw.random() > draw.odd else _leaf(draw)


_SCALES: Final = ("0", "2", "-2", "38", "39", "-2147483648", "9" * 30, "x", None, 2, [])


def _raw(draw: Draw, value: bytes) -> bytes:
    """The text with what no library writes: numbers of any length, deep nesting, wrong escapes."""
    for mark, raw in _MARKS.items():
        value = value.replace(b'"' + mark + b'"', raw)
    if draw.random() < 0.1:
        value = value.replace(b":", draw.choice((b" : ", b":\n", b"::")), 1)
    return value


def _rows(draw: Draw, schema: pa.Schema, as_text: bool = False) -> Any:
    """A row, perhaps with fewer fields, or something else in its place."""
    row = {one.name: _usual(draw, one.type) for one in schema}
    if as_text:
        row = {n: v if draw.random() < draw.odd else v if isinstance(v, str) else str(v) for n, v in row.items()}
    if draw.random() < draw.odd:
        row.pop(draw.choice(list(row)))
    if draw.random() < draw.odd / 2:
        row[draw.choice(list(row) or ["id"]).upper()] = _leaf(draw)
    return row if draw.random() > draw.odd / 2 else _leaf(draw)


def _canal(draw: Draw, schema: pa.Schema) -> bytes:
    count = draw.choice((0, 1, 1, 2, 3))
    kinds: tuple[Any, ...] = ("INSERT", "UPDATE", "DELETE")
    record = {name: [_rows(draw, schema, as_text=True) for _ in range(count)] for name in ("data", "old")}
    record |= {"type": draw.choice(kinds), "isDdl": False}
    if draw.random() < draw.odd:
        record["type"] = draw.choice(("TRUNCATE", "ALTER", "TIDB_WATERMARK", None, 7, ["INSERT"]))
    return _envelope_of_others(draw, record)


def _maxwell(draw: Draw, schema: pa.Schema) -> bytes:
    kinds = ("insert", "update", "delete", "bootstrap-insert")
    record = {"data": _rows(draw, schema), "old": _rows(draw, schema), "type": draw.choice(kinds)}
    if draw.random() < draw.odd:
        record["type"] = draw.choice(("truncate", "bootstrap-start", None, 7, {}))
    return _envelope_of_others(draw, record)


def _envelope_of_others(draw: Draw, record: dict[str, Any]) -> bytes:
    if draw.random() < draw.odd:
        record[draw.choice(("data", "old", "type", "isDdl", "database", "table"))] = _leaf(draw)
    return _raw(draw, orjson.dumps(record))


def _plain(draw: Draw, schema: pa.Schema) -> bytes:
    value = _raw(draw, orjson.dumps(_rows(draw, schema)))
    return b"-" + value if draw.random() < 0.1 else value


def _message(draw: Draw, schema: pa.Schema) -> bytes:
    rows = draw.choice((0, 1, 2, 5, 50))
    arrays: dict[str, pa.Array] = {}
    for one in schema:
        kind = one.type if draw.random() > draw.odd else draw.choice(list(_TYPES.values()))
        arrays[one.name] = _column(draw, kind, rows)
    if draw.random() < draw.odd:
        arrays.pop(draw.choice(list(arrays)))
    kinds: Any = pa.array(np.array([draw.randrange(4) for _ in range(rows)], np.int8), pa.int8())
    if draw.random() < draw.odd:
        nines = pa.array([9] * rows, pa.int8())
        kinds = draw.choice((pa.nulls(rows, pa.int8()), pa.nulls(rows), kinds.cast(pa.int64()), nines))
    names, columns = [*arrays, "_row_kind" if draw.random() > draw.odd / 3 else "kind"], [*arrays.values(), kinds]
    metadata = {b"lakelog.keys": draw.choice((b"[]", b'["id"]', b'["none"]', b"{", b"5", b"[null]", b'"id"'))}
    made = pa.schema([(name, column.type) for name, column in zip(names, columns, strict=True)], metadata)
    batch = pa.RecordBatch.from_arrays(columns, schema=made)
    sink = pa.BufferOutputStream()
    codec = draw.choice((None, None, "zstd", "lz4"))
    with pa.ipc.new_stream(sink, made, options=pa.ipc.IpcWriteOptions(compression=codec)) as stream:
        for _ in range(draw.choice((1,) * 10 + (0, 2))):
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def _avro(draw: Draw, schema: pa.Schema) -> bytes:
    """A change as lakelog writes it, with bytes of others in place of some, and the id of another schema at times."""
    kinds = np.array(draw.choice(((0, 0), (1, 2), (3, 3))), np.int8)
    try:
        batch = pa.RecordBatch.from_arrays([_column(draw, one.type, 2) for one in schema], schema=schema)
        values = ready_format("avro").encode(batch, kinds, "all", ["id"], HEADER)[0].values
        value = bytes(draw.choice(values.to_pylist()))
    except MALFORMED:  # a column of odd layout
        value = b"\0\0\0\0\1\2\2"
    return value if draw.random() > draw.odd else b"\0\0\0\0" + bytes([draw.randrange(9)]) + value[5:]


def _column(draw: Draw, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of odd layout: bits of any value, texts that are none, dictionaries, runs, views."""
    layout = draw.randrange(8) if draw.random() < draw.odd else 6
    if layout == 0:
        return pa.array([draw.choice(_TEXTS)] * rows, draw.choice((pa.string(), pa.large_string(), pa.string_view())))
    if layout == 1:
        return pa.array([draw.choice(_TEXTS)] * rows, pa.string()).dictionary_encode()
    if layout == 2 and rows:
        return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.nulls(1, kind))
    if layout == 3 and rows:
        ends = np.cumsum([0, *(draw.randrange(3) for _ in range(rows))]).astype(np.int32)
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(draw.randbytes(2 * rows))]
        return pa.Array.from_buffers(draw.choice((pa.string(), pa.binary())), rows, buffers)
    if (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)) and layout < 7:
        size = rows * max(1, kind.bit_width // 8)
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(draw.randbytes(max(8, size)))])
    return pa.nulls(rows, kind)


def _uses(form: LogFormat, value: bytes, schema: pa.Schema) -> dict[str, Callable[[], Any]]:
    """All that is done with a record's value."""
    values = pa.array([value], pa.large_binary())
    reads = {
        "decode": lambda: form.decode(values, schema).validate(full=True),
        "count": lambda: form.row_counts(values),
        "lacking": lambda: form.lacking(values, schema.names),
        "complete": lambda: form.completed(values, pa.nulls(1, pa.large_binary()), ["id"]),
    }
    if not form.is_written:
        return reads
    return reads | {
        "keys": lambda: form.decode_keys(values, pa.schema([schema.field(0)])),
        "images": lambda: [form.asserting(image, None) for image in form.images(value) if image is not None],
        "inverse": lambda: form.inverse(value),
        "split": lambda: form.split(None, value),
    }


def forms(name: str) -> list[LogFormat]:
    """A format, with each configuration of a connector."""
    if name != "debezium-json":
        return [ready_format(name)]
    return [log_format(name), *(DebeziumJson(Encodings(d, t)) for d, t in (("precise", "connect"), ("", "adaptive")))]


def attack(name: str, records: int, seed: int) -> Found:
    """Passes records to a format."""
    draw, found = Draw(f"{seed} {name}"), Found()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(records):
        draw.odd = draw.choice((0.0, 0.03, 0.3))
        schema = schemas(draw)
        value = hostile(draw, name, schema)
        for use, call in _uses(draw.choice(forms(name)), value, schema).items():
            try:
                call()
            except Corrupt if use != "decode" else MALFORMED as why:  # noqa: B030
                found.outcomes[f"{use}: {type(why).__name__}"] += 1
            except BaseException as why:
                where = f"record {number} of seed {seed}, {use}"
                found.wrong.append(f"{where}: {type(why).__name__}: {why} {value[:300]!r}")
            else:
                found.outcomes[f"{use}: done"] += 1
    found.peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    return found


def main() -> int:
    """Runs the attack, and prints what it found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=sorted(LOG_FORMATS), action="append")
    given = parser.parse_args()
    wrong = 0
    for name in given.format or sorted(LOG_FORMATS):
        start = time.monotonic()
        found = attack(name, given.records, given.seed)
        wrong += len(found.wrong)
        took = f"{given.records} records in {time.monotonic() - start:.0f} s, {found.peak} MB above the start"
        counts = (f"  {count:7} {what}" for what, count in sorted(found.outcomes.items()))
        sys.stdout.write("\n".join([f"{name}: {took}, {len(found.wrong)} wrong", *found.wrong[:20], *counts, ""]))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
