"""Hostile records of every format, decoded as a reader of the log does: no process may die, no other error may appear.

usage: hostile_records.py [--records 10000] [--seed N]

Valid records are changed (bytes, lengths, numbers, nesting, whole fields) or replaced by ones that would become very
large. A child process of each format reads them with ``scan.on-bad-record`` = ``skip``; what it cannot read must be
Corrupt. Prints the deaths, the other errors and the most memory above the start, and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import measure  # noqa: F401 - the path of the tests
import numpy as np
import pyarrow as pa

from lakelog import connect
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.compression import GZIP, LZ4, SNAPPY, ZSTD
from lakelog.logstore.record_batch.decoder import decode
from lakelog.options.parts import LOG_FORMATS
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.table.log.bad_records import RecordDecoder
from ready_formats import ready_format, schema_registry

_COLUMNS = (
    "id bigint, d decimal(30,5), w decimal(38,20), x double, s string, b binary, t timestamp, day date, at time, "
    "l array<decimal(10,2)>, m map<string, int>, r struct<a int, n decimal(20,3)>, f boolean"
)
_MOST_MIB = 512
_PART = 64
_CODECS = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
Draw = Callable[[random.Random], bytes]


def _valid(form: str, rng: random.Random, schema: pa.Schema) -> bytes:
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "id": n, "d": Decimal(rng.randrange(10**9)) / 100, "w": Decimal(n) / 8, "x": rng.random(),
                "s": "text" * rng.randrange(9), "b": rng.randbytes(5), "f": n % 2 == 0, "l": [Decimal("1.25"), None],
                "m": [("k", n)], "r": {"a": n, "n": Decimal("2.5")},
            }
            for n in range(rng.choice([1, 1, 3, 50]))
        ],
        schema=schema,
    )  # fmt: skip
    kinds = np.zeros(rows.num_rows, np.int8)
    messages = ready_format(form).messages(rows, kinds, "all", ["id"], b"1|d|w|0|a", {0: np.arange(rows.num_rows)})
    value: bytes = messages[0].records.values[0].as_py()
    return value


def _changed(value: bytes, rng: random.Random) -> bytes:
    data = bytearray(value)
    for _ in range(rng.choice([1, 1, 2, 8, 60])):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at : at + rng.randrange(1, 30)] = b""
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 3 and len(data) > at + 8:
            data[at : at + 8] = rng.choice([0, 1, -1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]).to_bytes(
                8, "little", signed=True
            )
        elif kind == 4:
            data[at:at] = data[at : at + rng.randrange(200)]
        elif data:
            del data[at:]
    return bytes(data)


def _number(rng: random.Random) -> str:
    digits = "".join(rng.choices("0123456789", k=rng.choice([1, 5, 30, 38, 39, 76, 77, 400, 50_000])))
    point = rng.randrange(len(digits))
    text = rng.choice(["", "-", "+"]) + rng.choice([digits, f"{digits[:point]}.{digits[point:]}", "0." + digits])
    if rng.random() < 0.4:
        text += rng.choice("eE") + rng.choice(["", "-", "+"]) + str(rng.randrange(10 ** rng.choice([1, 2, 3, 9, 30])))
    return text


def _odd(rng: random.Random) -> str:
    """A JSON value, mostly of a wrong type or of an odd size."""
    kind = rng.randrange(12)
    if kind < 4:
        number = _number(rng)
        return rng.choice([number, f'"{number}"', "".join(f"\\u{ord(c):04x}" for c in number[:300]).join('""')])
    deep = rng.choice([3, 40, 1_000, 20_000])
    return rng.choice(
        [
            "null", "true", '""', '"text"', "{}", "[]", "1e400", "NaN", '"NaN"', '"\\ud800"', '"' + "A" * 3_000 + '"',
            "[" * deep + "]" * deep, '{"a":' * deep + "1" + "}" * deep, "[" + "0," * 2_000 + "0]", '"9999-99-99"',
            '"2024-01-01 00:00:00.123456789123Z"', '"25:61:61"', '{"k":{"k":1}}', '[{"key":1,"value":2}]', "-0", "\x00",
        ]
    )  # fmt: skip


def _json(rng: random.Random, names: list[str]) -> bytes:
    image = "{" + ",".join(f'"{name}":{_odd(rng)}' for name in names if rng.random() < 0.6) + "}"
    before = rng.choice(["null", image, _odd(rng)])
    op = rng.choice(['"c"', '"c"', '"u"', '"d"', '"r"', '"t"', _odd(rng)])
    text = f'{{"before":{before},"after":{rng.choice([image, image, "null", _odd(rng)])},"op":{op}}}'
    if rng.random() < 0.2:
        text = f'{{"schema":{_odd(rng)},"payload":{text}}}'
    return text.encode("utf-8", "replace")


def _large_arrow(rng: random.Random, schema: pa.Schema) -> bytes:
    """A compressed message of few bytes and many rows, or of long texts."""
    rows = rng.choice([1, 8_192, 65_536, 300_000])
    text = "a" * (rng.choice([1, 1_000]) if rows > 1 else rng.choice([10, 20_000_000]))
    columns = {"id": pa.array(np.zeros(rows, np.int64)), "s": pa.repeat(pa.scalar(text), rows)}
    if rng.random() < 0.3:
        columns["d"] = pa.array([_number(rng)] * min(rows, 10) + ["1"] * (rows - min(rows, 10)))
    batch = pa.RecordBatch.from_pydict({**columns, "_row_kind": pa.array(np.zeros(rows, np.int8))})
    sink = pa.BufferOutputStream()
    packed = rng.choice(["zstd", "lz4"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _draw(form: str, schema: pa.Schema, rng: random.Random) -> bytes:
    if form == "arrow" and rng.random() < 0.02:
        return _large_arrow(rng, schema)
    if form != "arrow" and rng.random() < 0.6:
        return _json(rng, schema.names)
    value = _valid(form, rng, schema)
    return value if rng.random() < 0.05 else _changed(value, rng)


def _taken_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def read(form: str, count: int, seed: int) -> dict[str, object]:
    """Decodes records of a format in parts, and once more one by one when a part has raised something else."""
    rng, other = random.Random(seed), dict[str, int]()
    with tempfile.TemporaryDirectory(prefix="lakelog-hostile-") as root, connect(warehouse=f"{root}/wh") as lake:
        lake.sql(f"create database d; create table d.t ({_COLUMNS}) using lakelog tblproperties ('bucket' = '1', "
                 f"'log-store.enabled' = 'true', 'log-store.data-format' = '{form}', "
                 f"'log-store.schema-registry.url' = '{schema_registry().url}')")  # fmt: skip
        table = lake.table("d.t").logical.with_hints({"scan.on-bad-record": "skip"})
        schema = arrow_schema(table.schema.fields)
        decoder = RecordDecoder(table, partial(ready_format(form).decode, schema=schema), None)
        good = done = 0
        draws = [_draw(form, schema, rng) for _ in range(min(count, 2_000))]  # what drawing takes counts before
        start = _taken_mib()
        while done < count:
            part = draws[:_PART] or [_draw(form, schema, rng) for _ in range(_PART)]
            draws = draws[_PART:]
            try:
                rows = decoder.rows(pa.array(part, pa.large_binary()), pa.array(range(len(part)), pa.int64()))
                good += 0 if rows is None else rows.num_rows
            except Exception as why:
                other[f"{type(why).__name__}: {str(why)[:80]}"] = done
            done += len(part)
    return {"records": done, "rows": good, "other errors": other, "MiB above start": _taken_mib() - start}


def read_batches(count: int, seed: int) -> dict[str, object]:
    """Decodes compressed batches: changed ones, and ones that would become gigabytes."""
    rng, other = random.Random(seed), dict[str, int]()
    zeros = bytes(64 << 20)
    large = {}
    for codec, name in _CODECS.items():
        sink = pa.BufferOutputStream()
        if codec == SNAPPY:
            large[codec] = bytes(pa.Codec(name).compress(zeros, asbytes=True))
            continue
        with pa.CompressedOutputStream(sink, name) as stream:
            for _ in range(16):
                stream.write(zeros)
        large[codec] = bytes(sink.getvalue())
    del zeros
    start = _taken_mib()
    for done in range(count):
        codec = rng.choice(list(_CODECS))
        plain = rng.randbytes(8) * rng.randrange(1, 300)
        payload = large[codec] if done % 500 == 0 else _changed(_packed(plain, codec), rng)
        number = rng.choice([1 << 20, (1 << 31) - 1]) if done % 200 == 0 else rng.choice([0, 1, 3, 100, 3_000, -1])
        batch = RecordBatch(payload, number, codec, 0, 0, max(0, number - 1))
        try:
            decode([batch, batch])
        except Exception as why:
            if type(why).__name__ not in ("Corrupt", "UnsupportedFeature"):
                other[f"{type(why).__name__}: {str(why)[:80]}"] = done
    return {"records": count, "other errors": other, "MiB above start": _taken_mib() - start}


def _packed(plain: bytes, codec: int) -> bytes:
    if codec == GZIP:
        return zlib.compress(plain, wbits=31)
    sink = pa.BufferOutputStream()
    if codec == SNAPPY:
        return bytes(pa.Codec("snappy").compress(plain, asbytes=True))
    with pa.CompressedOutputStream(sink, _CODECS[codec]) as stream:
        stream.write(plain)
    return bytes(sink.getvalue())


def main() -> None:
    """Runs it; exits with 1 after a death, another error, or too much memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--only", help="one of the formats, or 'batches'; reads in this process")
    given = parser.parse_args()
    if given.only:
        found = (
            read_batches(given.records, given.seed)
            if given.only == "batches"
            else read(given.only, given.records, given.seed)
        )
        print(json.dumps(found))
        return
    wrong = 0
    for form in (*LOG_FORMATS, "batches"):
        command = [sys.executable, str(Path(__file__)), "--only", form, "--records", str(given.records)]
        child = subprocess.run([*command, "--seed", str(given.seed)], capture_output=True, text=True, check=False)
        lines = re.findall(r"^\{.*\}$", child.stdout, re.MULTILINE)
        shown = json.loads(lines[-1]) if lines else {"stderr": child.stderr[-500:]}
        print(json.dumps({"format": form, "seed": given.seed, "exit": child.returncode, **shown}), flush=True)
        wrong += child.returncode != 0 or bool(shown.get("other errors")) or shown["MiB above start"] > _MOST_MIB
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
