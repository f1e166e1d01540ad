"""Records of a real Debezium connector (``recorded/README.md``)."""

from __future__ import annotations

from pathlib import Path

SCHEMAS, BARE = "debezium-schemas", "debezium-bare"
TABLE = (
    "id bigint not null, name string not null, price decimal(10, 2), total decimal(30, 10), day date, "
    "at timestamp_ntz(3), at6 timestamp_ntz(6), atz timestamp_ltz(6), span bigint, doc string, feel string, u string, "
    "raw binary, tags array<int>, words array<string>, ok boolean, f4 float, f8 double, small smallint, flags binary, "
    "flag boolean"
)
"""The columns that both forms give."""


def recorded(name: str, topic: str = "", without: str = '"op":"t"') -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a file's records, in order; those of one topic, without those that contain a text."""
    lines = (Path(__file__).parent / "recorded" / f"{name}.tsv").read_text().splitlines()
    found = [line.split("\t") for line in lines if not without or without not in line]
    return [tuple(_bytes(t) for t in parts[1:]) for parts in found if topic in ("", parts[0])]  # type: ignore[misc]


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else text.encode()
