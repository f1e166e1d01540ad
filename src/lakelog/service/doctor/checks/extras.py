"""Which optional parts are installed, and is a required one missing?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final

from lakelog.io import scheme_of
from lakelog.options.catalog import CATALOG_OPTIONS, CATALOG_TYPE
from lakelog.options.option import Options
from lakelog.service.doctor.check import Check, CheckContext, Finding

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": ("confluent-kafka", "kafka-python"),
    "pulsar": ("pulsar-client", "urllib3"),
    "s3": ("obstore",),
    "hdfs": ("hdfs-native",),
    "sql-catalog": ("sqlalchemy",),
    "postgres": ("sqlalchemy", "psycopg"),
    "rest": ("urllib3",),
    "metrics": ("prometheus-client",),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
    "connect": ("grpcio", "pandas"),
}
"""Extra → its packages."""
_OF_SCHEME: Final = {
    "s3": "s3", "s3a": "s3", "gs": "s3", "az": "s3", "abfs": "s3", "abfss": "s3", "hdfs": "hdfs", "viewfs": "hdfs",
}  # fmt: skip
_OF_CATALOG: Final = {"sql": "sql-catalog", "jdbc": "sql-catalog", "rest": "rest"}


class ExtrasCheck(Check):
    """The extras of lakelog."""

    NAME = "extras"
    TITLE = "optional parts"

    def run(self, around: CheckContext) -> Iterator[Finding]:
        installed = {extra for extra, packages in EXTRAS.items() if all(map(_version, packages))}
        for extra in sorted(_needed(around) - installed):
            yield self.failed(f"this needs the extra '{extra}', which is missing", f"pip install 'lakelog[{extra}]'")
        have = [f"{extra} ({_version(EXTRAS[extra][0])})" for extra in EXTRAS if extra in installed]
        others = [extra for extra in EXTRAS if extra not in installed]
        text = f"installed: {', '.join(have) or 'none'}"
        yield self.passed(f"{text}; not installed: {', '.join(others)}" if others else text)


def _needed(around: CheckContext) -> set[str]:
    """The extras that this warehouse, log and catalog need."""
    given = CATALOG_OPTIONS.canonical(around.catalog_options)
    kind = Options(given).need(CATALOG_TYPE)
    asked = (_OF_SCHEME.get(scheme_of(around.warehouse)), _OF_CATALOG.get(kind), *around.log_factory.extras.values())
    return {name for name in asked if name is not None and name in EXTRAS}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
