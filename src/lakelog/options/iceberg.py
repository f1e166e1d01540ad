"""Options of the Iceberg metadata beside the snapshots, with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option, options_in

DISABLED: Final = "disabled"
TABLE_LOCATION: Final = "table-location"
VECTORS_VERSION: Final = 3
"""The first version of Iceberg metadata that names deletion vectors and numbers rows."""
VERSIONS: Final = (2, VECTORS_VERSION)


def _version_fault(version: int) -> str:
    return "" if version in VERSIONS else "lakelog writes versions 2 and 3"


ICEBERG_STORAGE: Final = Option(
    "metadata.iceberg.storage",
    str,
    DISABLED,
    "Place of Iceberg metadata, which commits write for Iceberg's readers: in the directory of the table, or nowhere.",
    choices=(DISABLED, TABLE_LOCATION),
)
ICEBERG_VERSION: Final = Option(
    "metadata.iceberg.format-version",
    int,
    2,
    "Version of the Iceberg metadata: 2, or 3, which tables with deletion vectors need.",
    fault=_version_fault,
)

ICEBERG_OPTIONS: Final = options_in(globals())
