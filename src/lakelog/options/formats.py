"""The version of each format of lakelog's own files and records; those of Apache Paimon's format are in ``paimon``.

A version changes when an older lakelog could read the bytes wrongly. Who reads an unknown one raises an error that
names it. A key that is added to a JSON record changes no version, because readers ignore keys that they do not know.
"""

from __future__ import annotations

from typing import Final

EPOCH_RECORD: Final = b"LAKELOG1"
"""The first bytes of a link of the chain, and of a decided epoch in a lane."""
LOG_RECORD: Final = "1"
"""The version in the header of a log record."""
LOG_RECORD_WITH_SCHEMA: Final = "2"
"""The same for a record that names its schema (RFC 17)."""
LOG_SEGMENT: Final = b"LLS1"
"""The first bytes of a segment of a log in files."""
PULSAR_PACK: Final = "1"
"""The version of a pack of records in a Pulsar message."""
CUT: Final = 1
"""The version of a cut of several tables (RFC 24)."""
BACKUP: Final = 1
"""The version of a backup and of its points (RFC 26)."""
