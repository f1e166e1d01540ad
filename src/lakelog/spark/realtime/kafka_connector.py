"""Spark's own Kafka connector: its setup in a session, its options for a log, and the error if it is missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark
from pyspark.errors import AnalysisException

from lakelog.errors import InvalidOption, NotInstalled
from lakelog.logstore.base import LogLocation
from lakelog.logstore.credentials import credentials_of
from lakelog.spark.compat.natives import CONNECTOR, COORDINATES

JARS_VARIABLE: Final = "LAKELOG_KAFKA_JARS"
"""Environment variable with a directory of the connector's jars, for machines without a network."""

_JARS: Final = "spark.jars"
PACKAGES: Final = "spark.jars.packages"
_LOGINS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def connector_settings(given: Mapping[str, str], wanted: bool) -> dict[str, str]:
    """The settings that a new session needs in addition to ``given`` for the connector.

    They use the jars of the directory in ``LAKELOG_KAFKA_JARS``. Without it, and if ``wanted``, Spark's resolver gets
    the coordinates, unless Spark or the settings have the connector. Raises InvalidOption for a directory without it.
    """
    directory = os.environ.get(JARS_VARIABLE)
    if directory:
        jars = sorted(str(path) for path in Path(directory).glob("*.jar"))
        if not any(CONNECTOR in jar for jar in jars):
            raise InvalidOption(
                f"{JARS_VARIABLE} = '{directory}' has no {CONNECTOR}-*.jar: put {COORDINATES} and its "
                "dependencies there"
            )
        return {_JARS: _joined(given.get(_JARS), *jars)}
    own = Path(pyspark.__file__).parent / "jars"
    has_it = any(own.glob(f"{CONNECTOR}-*.jar")) or any(CONNECTOR in given.get(key, "") for key in (_JARS, PACKAGES))
    return {} if has_it or not wanted else {PACKAGES: _joined(given.get(PACKAGES), COORDINATES)}


def _joined(*parts: str | None) -> str:
    return ",".join(part for part in parts if part)


@contextlib.contextmanager
def connector_needed() -> Iterator[None]:
    """Turns Spark's "no data source kafka" into NotInstalled with a remedy."""
    try:
        yield
    except AnalysisException as failed:
        if "kafka" not in str(failed).lower() or "data source" not in str(failed).lower():
            raise
        raise NotInstalled(
            f"this Spark session does not have Spark's Kafka connector, which the real-time path needs: start it with "
            f"lakelog.connect(settings={{'{PACKAGES}': '{COORDINATES}'}}), or with a directory of its jars in the "
            f"environment variable {JARS_VARIABLE}"
        ) from failed


def client_options(log: LogLocation) -> dict[str, str]:
    """Options of the connector's source and sink that reach the broker of a log."""
    return {f"kafka.{key}": value for key, value in _java_properties(log).items()}


def _java_properties(log: LogLocation) -> dict[str, str]:
    """The client's properties for Kafka's Java client; most have the same names in librdkafka."""
    out = dict(credentials_of(log))
    out["bootstrap.servers"] = log.address
    mechanism = out.pop("sasl.mechanisms", None) or out.get("sasl.mechanism")
    user, password = out.pop("sasl.username", None), out.pop("sasl.password", None)
    if mechanism is not None:
        out["sasl.mechanism"] = mechanism
    if user is not None and "sasl.jaas.config" not in out:
        login = _LOGINS.get(mechanism or "", _LOGINS["PLAIN"])
        out["sasl.jaas.config"] = f"{login} required username={_quoted(user)} password={_quoted(password or '')};"
    authorities = out.pop("ssl.ca.location", None)
    if authorities is not None:
        out.setdefault("ssl.truststore.type", "PEM")
        out.setdefault("ssl.truststore.location", authorities)
    return out


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
