"""The header of a log record, which names its writer, epoch and attempt (RFC 2).

ASCII text, fields separated by ``|``: ``1|<kind>|<writer>|<epoch>|<attempt>|<ref offset>|<sign>|<extra>``; trailing
empty fields are omitted. An unowned record, which belongs to no epoch (*log first*), has no header, or one without a
writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt

HEADER_KEY: Final = "lakelog"
DATA: Final = "d"
CORRECTION: Final = "x"
BEGIN: Final = "b"
COMMIT: Final = "c"
ABORT: Final = "a"
LOG_ONLY: Final = "log-"
"""Prefix of attempts whose rows are in no file (``emit.mode`` = log); their corrections name the same attempt."""
_VERSION: Final = "1"


@dataclass(frozen=True)
class Header:
    """A parsed header; ``ref`` and ``sign`` of a correction, ``extra`` of a commit."""

    kind: str
    writer: str
    epoch: int
    attempt: str
    ref: int = -1
    sign: int = 0
    extra: str = ""


def encode_header(
    kind: str, writer: str, epoch: int, attempt: str, ref: int | None = None, sign: int | None = None, extra: str = ""
) -> bytes:
    """The bytes of a header."""
    fields = [_VERSION, kind, writer, str(epoch), attempt]
    if ref is not None:
        fields += [str(ref), str(sign)]
    elif extra:
        fields += ["", ""]
    if extra:
        fields.append(extra)
    return "|".join(fields).encode("ascii")


UNOWNED_HEADER: Final = encode_header(DATA, "", 0, "")
"""The header of an unowned row, which is visible as soon as it is in the log and is never reverted."""


def decode_header(data: bytes | None, offset: int) -> Header:
    """Parses one header (None is an unowned row). Raises Corrupt with the offset for an unknown version."""
    if data is None:
        return Header(DATA, "", 0, "")
    fields = data.decode("ascii", "replace").split("|", 7)
    if fields[0] != _VERSION or len(fields) < 5:
        raise Corrupt(
            f"log record at offset {offset} has header version {fields[0]!r}; this lakelog reads version {_VERSION}: "
            "upgrade lakelog, or check that the topic is lakelog's alone"
        )
    fields += [""] * (8 - len(fields))
    return Header(fields[1], fields[2], int(fields[3]), fields[4], int(fields[5] or -1), int(fields[6] or 0), fields[7])


def parse_kinds(headers: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The kind of each record (one letter); data if it has no header. Raises Corrupt for an unknown version."""
    headers = pc.fill_null(headers, UNOWNED_HEADER)
    text = pc.cast(pc.binary_slice(headers, 0, 2), pa.string())
    known = pc.equal(text, f"{_VERSION}|")
    if not pc.all(known, min_count=0).as_py():
        bad = pc.index(known, pa.scalar(False)).as_py()
        raise Corrupt(
            f"log record {bad} of this read has header {headers[bad].as_py()!r}; lakelog reads version {_VERSION}: "
            "upgrade lakelog, or check that the topic is lakelog's alone"
        )
    return pc.cast(pc.binary_slice(headers, 2, 3), pa.string())


def are_unowned(headers: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Marks the unowned rows. Call ``parse_kinds`` first, which rejects unknown versions."""
    start = b"%s|%s||" % (_VERSION.encode(), DATA.encode())
    return pc.fill_null(pc.starts_with(headers, start), True)
