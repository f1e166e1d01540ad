"""Tables with VARIANT columns that Paimon's Java core makes, with values of all kinds."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from paimon_java import PaimonJava
from paimon_tables import MAKERS, commits, nullable

_NO_NAMES: Final = b"\x01\x00\x00"
JSON: Final = [
    "null", "true", "0", "-128", "32767", "-2147483648", "9223372036854775807", "1.50", "-0.000001",
    "12345678901234567890.123456789012345678", "123456789012345678901234567890", "1e100", "-2.5E-3", '""', '"é日🐎"',
    json.dumps("long " * 40), "[]", "{}", "[1, [2.5, null], {}]", '{"a": 1, "b": {"c": [true, "x"]}, "z": null}',
    '{"z": {"y": 1, "a": "1"}, "a": [{"z": 1}, {"é": 1e0}], "": 0}',
    json.dumps({f"k{i:03}": i for i in range(300, 0, -1)}),
    json.dumps(list(range(300))),
]  # fmt: skip
"""JSON texts of values of all kinds that JSON has."""
OTHERS: Final = [
    (struct.pack("<Bi", 11 << 2, 19_782), _NO_NAMES),  # a date
    (struct.pack("<Bq", 12 << 2, 1_709_210_096_789_123), _NO_NAMES),  # an instant
    (struct.pack("<Bq", 13 << 2, -1), _NO_NAMES),  # a timestamp without a zone
    (struct.pack("<Bf", 14 << 2, 0.1), _NO_NAMES),
    (struct.pack("<BI", 15 << 2, 3) + b"\x00\xff\x01", _NO_NAMES),
    (struct.pack("<Bd", 7 << 2, float("nan")), _NO_NAMES),
    (b"\x03\x02\x00\x05\x0a" + struct.pack("<Bi", 11 << 2, -1) + struct.pack("<Bi", 11 << 2, 1), _NO_NAMES),
]
"""(value, metadata) of values that JSON does not have: date, times, float, bytes, NaN, a list of dates."""
VALUES: Final[list[Any]] = [*JSON, *OTHERS]
_ROW: Final = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "p", "type": "VARIANT"}, {"id": 1, "name": "q", "type": "INT"}],
}
COLUMNS: Final[dict[str, Any]] = {
    "id": "INT", "v": "VARIANT", "many": {"type": "ARRAY", "element": "VARIANT"}, "inside": _ROW,
}  # fmt: skip


def row(chance: random.Random) -> Sequence[Any]:
    """A row of ``COLUMNS``."""
    value, *more = chance.choices(VALUES, k=4)
    inside = nullable((nullable(more[0], chance), 1), chance)
    return chance.randrange(40), nullable(value, chance), nullable([*more, None], chance), inside


def _variants(**options: str) -> Any:
    def make(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
        given = {"bucket": "1"} | {k.replace("_", "-"): v for k, v in options.items()}
        paimon.create(str(warehouse), name, COLUMNS, ["id"], (), given)
        deletes = 0 if "merge-engine" in given else 0.15
        every = [(i, value, None, None) for i, value in enumerate(VALUES)]
        commits(paimon, warehouse, name, chance, row, compact=(0,), deletes=deletes)
        paimon.write(str(warehouse), "g", name, every, None, 9)

    return make


MAKERS |= {
    "variants": _variants(changelog_producer="lookup"),
    "variants_partial": _variants(merge_engine="partial-update"),
    "variants_first": _variants(merge_engine="first-row"),
}
