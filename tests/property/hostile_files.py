"""Data files with faults, drawn from a seed: ``python tests/property/hostile_files.py``.

usage: hostile_files.py [--files N] [--seed SEED] [--name NAME]

A file is one that lakelog or another engine could have written, with bytes flipped, cut, repeated or replaced by large
numbers. What comes out is rows or an error of ours; the process lives, and its memory stays small.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hostile_records import Found, _spoiled
from pyarrow import orc

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.fileformat import format_of
from lakelog.fileformat.avro import AvroFormat
from lakelog.io.storage.local import LocalFileIO
from lakelog.paimon.index.deletion_vector import decode_vector, encode_vector

_TEXTS: Final = [f"text {n % 9}" * (n % 4) for n in range(200)]
_ENDS: Final = pa.array([0, *range(0, 200, 2), 200], pa.int32())
_LISTS: Final = pa.ListArray.from_arrays(_ENDS, pa.array(_TEXTS))
_ROWS: Final = pa.table(
    {
        "id": pa.array(range(101)), "text": pa.array(_TEXTS[:101]), "list": _LISTS, "x": pa.array(np.arange(101) / 7),
        "map": pa.MapArray.from_arrays(_ENDS, pa.array([str(n) for n in range(200)]), pa.array(range(200))),
        "flag": pa.array([n % 3 == 0 for n in range(101)]),
    }
)  # fmt: skip


def _parquet(**given: Any) -> Callable[[str], None]:
    return lambda path: pq.write_table(_ROWS, path, row_group_size=60, store_schema=False, **given)


def _orc(compression: str, share: float) -> Callable[[str], None]:
    return lambda path: orc.write_table(_ROWS, path, compression=compression, dictionary_key_size_threshold=share)


def _avro(path: str) -> None:
    AvroFormat().write(LocalFileIO(), path, _ROWS.to_batches(), _ROWS.schema)


FILES: Final[dict[str, Callable[[str], None]]] = {
    "zstd.parquet": _parquet(compression="zstd"),
    "plain.parquet": _parquet(compression="none", use_dictionary=False),
    "pages.parquet": _parquet(compression="none", data_page_version="2.0", data_page_size=50),
    "deltas.parquet": _parquet(
        compression="none",
        use_dictionary=False,
        column_encoding={"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "flag": "RLE"},
    ),
    "plain.orc": _orc("uncompressed", 0.0),
    "dictionary.orc": _orc("uncompressed", 1.0),
    "lz4.orc": _orc("lz4", 1.0),
    "zlib.orc": _orc("zlib", 1.0),
    "x.avro": _avro,
}


def _read(path: str) -> None:
    for batch in format_of(path).read(LocalFileIO(), path):
        assert batch.num_rows


def attack(name: str, files: int, seed: int) -> Found:
    """Reads spoiled copies of a file."""
    draw, found = random.Random(f"{seed} {name}"), Found(Counter())
    with TemporaryDirectory() as directory:
        path = str(Path(directory) / name)
        FILES[name](path)
        sound = Path(path).read_bytes()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(files):
            Path(path).write_bytes(_damaged(draw, sound))
            _try(lambda: _read(path), found, f"file {number} of seed {seed}")
        found.peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    return found


def _damaged(draw: random.Random, sound: bytes) -> bytes:
    if draw.random() < 0.3:
        return _spoiled(draw, sound)  # type: ignore[arg-type]
    data = bytearray(sound)
    # most of what decides about memory is near the end: footers
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = len(data) - 1 - int(len(data) * draw.random() ** 2)
        data[max(0, at)] = draw.choice((0, 0x7F, 0xFF, 0x80, 0xFE, draw.randrange(256)))
    return bytes(data)


def attack_vectors(number: int, seed: int) -> Found:
    """Decodes spoiled deletion vectors, with a right checksum."""
    draw, found = random.Random(seed), Found(Counter())
    for _ in range(number):
        sound = encode_vector(np.array(sorted(draw.sample(range(200_000), 900)), np.int64), draw.random() < 0.5)
        payload = sound[4:8] + _damaged(draw, sound[8:-4])
        data = len(payload).to_bytes(4, "big") + payload + zlib.crc32(payload).to_bytes(4, "big")
        _try(lambda data=data: decode_vector(data), found, "a vector")  # type: ignore[misc]
    return found


def _try(read: Callable[[], object], found: Found, what: str) -> None:
    try:
        read()
    except (Corrupt, UnsupportedFeature) as why:
        found.outcomes[type(why).__name__] += 1
    except BaseException as why:
        found.wrong.append(f"{what}: {type(why).__name__}: {why}")
    else:
        found.outcomes["done"] += 1


def main() -> int:
    """Runs the attack, and prints what it found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", choices=sorted(FILES), action="append")
    given = parser.parse_args()
    wrong = 0
    for name in given.name or sorted(FILES):
        found = attack(name, given.files, given.seed)
        wrong += len(found.wrong)
        took = f"{name}: {found.peak} MB above the start, {len(found.wrong)} wrong, {dict(found.outcomes)}"
        sys.stdout.write("\n".join([took, *found.wrong[:20], ""]))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
