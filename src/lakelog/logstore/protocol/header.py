"""The header of a log record, which names its writer, epoch and attempt (RFC 2).

ASCII text, fields separated by ``|``: ``1|<kind>|<writer>|<epoch>|<attempt>|<ref offset>|<sign>|<extra>``; trailing
empty fields are omitted. An unowned record, which belongs to no epoch (*log first*), has no header, or one without a
writer.

Version 2 is that of data records and corrections whose columns do not have the table's first names (RFC 17). Its last
field is the id of their schema: ``2|<kind>|<writer>|<epoch>|<attempt>|<ref offset>|<sign>|<schema>``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.options.formats import LOG_RECORD, LOG_RECORD_WITH_SCHEMA

HEADER_KEY: Final = "lakelog"
DATA: Final = "d"
CORRECTION: Final = "x"
BEGIN: Final = "b"
COMMIT: Final = "c"
ABORT: Final = "a"
FOREIGN: Final = "?"
"""The kind of a record whose header lakelog did not write. It is no row, and belongs to no epoch."""
LOG_ONLY: Final = "log-"
"""Prefix of attempts whose rows are in no file (``emit.mode`` = log); their corrections name the same attempt."""
_KNOWN: Final = (f"{LOG_RECORD}|".encode(), f"{LOG_RECORD_WITH_SCHEMA}|".encode())
_FOREIGN_HEADER: Final = f"{LOG_RECORD}|{FOREIGN}||0|".encode()
_VERSIONED: Final = rb"[0-9]{1,9}\|"
_TEXT: Final = "[ -{}~]*"
_NUMBER: Final = "-?[0-9]{1,19}"
_OWNER: Final = rf"[a-z?]\|{_TEXT}\|{_NUMBER}\|{_TEXT}"
_REFERENCE: Final = rf"\|(?:{_NUMBER})?\|(?:{_NUMBER})?"
_SCHEMA: Final = "(?:[0-9]{1,9}|1[0-9]{9})"
_FORM: Final = rf"^(?:1\|{_OWNER}(?:{_REFERENCE}(?:\|[ -~]*)?)?|2\|{_OWNER}{_REFERENCE}\|{_SCHEMA})$"
"""A header of a known version, as a regular expression."""
_PATTERN: Final = re.compile(_FORM.encode())
_FEW: Final = 50
"""Number of headers that are faster to look at one by one."""


@dataclass(frozen=True)
class Header:
    """A parsed header; ``ref`` and ``sign`` of a correction, ``extra`` of a commit.

    ``schema`` is the id of the schema whose columns the value names; None: the first names (RFC 17).
    """

    kind: str
    writer: str
    epoch: int
    attempt: str
    ref: int = -1
    sign: int = 0
    extra: str = ""
    schema: int | None = None


def encode_header(
    kind: str,
    writer: str,
    epoch: int,
    attempt: str,
    ref: int | None = None,
    sign: int | None = None,
    extra: str = "",
    schema: int | None = None,
) -> bytes:
    """The bytes of a header."""
    if schema is not None:
        extra = str(schema)
    fields = [LOG_RECORD if schema is None else LOG_RECORD_WITH_SCHEMA, kind, writer, str(epoch), attempt]
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
    """Parses one header (None is an unowned row). Raises Corrupt with the offset for an unknown version.

    Bytes that are no header give one of the kind ``FOREIGN``.
    """
    if data is None:
        return Header(DATA, "", 0, "")
    if not _PATTERN.fullmatch(data):
        _check_version(data, offset)
        data = _FOREIGN_HEADER
    fields = data.decode("ascii").split("|", 7)
    fields += [""] * (8 - len(fields))
    has_schema = fields[0] == LOG_RECORD_WITH_SCHEMA
    return Header(
        fields[1],
        fields[2],
        int(fields[3]),
        fields[4],
        int(fields[5] or -1),
        int(fields[6] or 0),
        "" if has_schema else fields[7],
        int(fields[7]) if has_schema else None,
    )


def _check_version(data: bytes, offset: int) -> None:
    """Raises Corrupt for a header of a version that this release does not know."""
    if re.match(_VERSIONED, data) and not data.startswith(_KNOWN):
        version = data.partition(b"|")[0].decode()
        raise Corrupt(
            f"log record at offset {offset} has header version {version!r}; this lakelog reads versions {LOG_RECORD} "
            f"and {LOG_RECORD_WITH_SCHEMA}: upgrade lakelog, or check that the topic is lakelog's alone"
        )


def foreign_records(records: pa.Table) -> np.ndarray:
    """The positions of records (RECORDS_SCHEMA) whose headers lakelog did not write.

    Raises Corrupt with the offset for an unknown version.
    """
    headers = records.column("header")
    if len(headers) <= _FEW and all(text is None or _PATTERN.fullmatch(text) for text in headers.to_pylist()):
        return np.empty(0, np.int64)
    distinct = pc.unique(headers).drop_null()  # records of one attempt have one header
    wrong = distinct.filter(pc.invert(pc.match_substring_regex(distinct, _FORM)))
    positions: np.ndarray = np.flatnonzero(pc.is_in(headers, wrong)) if len(wrong) else np.empty(0, np.int64)
    for place in positions.tolist():
        _check_version(headers[place].as_py(), records.column("offset")[place].as_py())
    return positions


def as_foreign(records: pa.Table, places: np.ndarray) -> pa.Table:
    """The records, those at these positions with a header of the kind ``FOREIGN``."""
    headers = records.column("header")
    if not len(places):
        return records
    mask = np.zeros(len(headers), np.bool_)
    mask[places] = True
    known = pc.if_else(pa.array(mask), pa.scalar(_FOREIGN_HEADER, headers.type), headers)
    return records.set_column(records.schema.get_field_index("header"), records.schema.field("header"), known)


def parse_kinds(headers: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The kind of each record (one letter); data if it has no header. Raises Corrupt for an unknown version."""
    headers = pc.fill_null(headers, UNOWNED_HEADER)
    start = pc.binary_slice(headers, 0, 2)
    known = pc.equal(start, _KNOWN[0])
    if not pc.all(known, min_count=0).as_py():
        known = pc.or_(known, pc.equal(start, _KNOWN[1]))
    kinds = pc.cast(pc.binary_slice(headers, 2, 3), pa.string(), safe=False)
    if not pc.all(known, min_count=0).as_py():
        for place in np.flatnonzero(~known.to_numpy(zero_copy_only=False)).tolist():
            _check_version(headers[place].as_py(), place)
        kinds = pc.if_else(known, kinds, FOREIGN)
    return kinds


def has_corrections(headers: pa.ChunkedArray, writer: str) -> bool:
    """True if there are corrections of a writer's records, assertions included."""
    named = f"|{CORRECTION}|{writer}|"
    is_any = pc.any(pc.match_substring(headers, named)).as_py() if len(headers) else False
    return bool(is_any)


def newest_epoch(headers: pa.ChunkedArray, writer: str) -> int:
    """The newest epoch of a writer's data records, -1 without any."""
    rows = f"|{DATA}|{writer}|"
    chosen = headers.filter(pc.match_substring(headers, rows)) if len(headers) else headers
    return max((int(text.split(b"|", 4)[3]) for text in chosen.to_pylist()), default=-1)


def of_kinds(records: pa.Table, kinds: Collection[str]) -> pa.Table:
    """The records (RECORDS_SCHEMA) of these kinds, in their order. Raises as ``parse_kinds``."""
    headers = records.column("header")
    if records.num_rows <= _FEW and not headers.null_count:  # a tail mostly has one record, and Arrow's calls cost more
        texts = headers.to_pylist()
        if all(text[:2] in _KNOWN and len(text) > 2 for text in texts):
            of_kind = [chr(text[2]) in kinds for text in texts]
            return records if all(of_kind) else records.filter(pa.array(of_kind))
    is_chosen = pc.is_in(parse_kinds(headers), pa.array(sorted(kinds), pa.string()))
    return records if pc.all(is_chosen).as_py() else records.filter(is_chosen)


def are_unowned(headers: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Marks the unowned rows. Call ``parse_kinds`` first, which rejects unknown versions."""
    start = f"|{DATA}||".encode()
    return pc.fill_null(pc.equal(pc.binary_slice(headers, 1, 1 + len(start)), start), True)


def are_of_attempts(headers: pa.ChunkedArray | pa.Array, attempts: Collection[tuple[str, int, str]]) -> np.ndarray:
    """Marks the data records of these attempts (writer, epoch, attempt)."""
    texts = [encode_header(DATA, *one) for one in attempts]
    if _has_schemas(headers):
        for text in pc.unique(headers).drop_null().to_pylist():
            head = decode_header(text, -1)
            if head.schema is not None and head.kind == DATA and (head.writer, head.epoch, head.attempt) in attempts:
                texts.append(text)
    matches: np.ndarray = pc.is_in(headers, pa.array(texts, pa.binary())).to_numpy(zero_copy_only=False)
    return matches


def schema_ids(headers: pa.ChunkedArray | pa.Array) -> np.ndarray | None:
    """The schema id in each header, -1 without one; None if no header has one. Call ``parse_kinds`` first."""
    if not _has_schemas(headers):
        return None
    array = headers.combine_chunks() if isinstance(headers, pa.ChunkedArray) else headers
    runs = pc.run_end_encode(array)
    found = [None if text is None else decode_header(text, -1).schema for text in runs.values.to_pylist()]
    ids = np.array([-1 if one is None else one for one in found], np.int64)
    return np.repeat(ids, np.diff(runs.run_ends.to_numpy(), prepend=0))


def _has_schemas(headers: pa.ChunkedArray | pa.Array) -> bool:
    if len(headers) <= _FEW:
        return any(text is not None and text[:1] == LOG_RECORD_WITH_SCHEMA.encode() for text in headers.to_pylist())
    if pc.all(pc.equal(headers, headers[0]), skip_nulls=False).as_py():  # records of one attempt, as most are
        headers = headers[:1]
    return bool(pc.any(pc.equal(pc.binary_slice(headers, 0, 1), LOG_RECORD_WITH_SCHEMA.encode())).as_py())
