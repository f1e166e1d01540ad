"""What a session is given so that it has Spark's Kafka connector, and what the connector is told of a log."""

from __future__ import annotations

import pyspark
import pytest

from lakelog.errors import InvalidOption
from lakelog.logstore.base import LogLocation
from lakelog.spark.compat.natives import COORDINATES
from lakelog.spark.realtime.kafka_connector import JARS_VARIABLE, client_options, connector_settings

NAME = "spark-sql-kafka-0-10_2.13"


@pytest.fixture(autouse=True)
def no_directory(monkeypatch) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)


def test_the_version_is_that_of_pyspark() -> None:
    assert f"org.apache.spark:{NAME}:{pyspark.__version__}" == COORDINATES


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"spark.jars.packages": COORDINATES}),
        ({"spark.jars.packages": "a:b:1"}, {"spark.jars.packages": f"a:b:1,{COORDINATES}"}),
        ({"spark.jars.packages": f"org.apache.spark:{NAME}:4.2.0"}, {}),
        ({"spark.jars": f"/jars/{NAME}-4.2.0.jar"}, {}),
    ],
)
def test_a_session_that_wants_it_gets_it_once(given, found) -> None:
    assert connector_settings(given, wanted=True) == found
    assert connector_settings(given, wanted=False) == {}


def test_a_directory_with_the_jars_is_used_always(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    with pytest.raises(InvalidOption, match=f"{JARS_VARIABLE}.*{NAME}"):
        connector_settings({}, wanted=False)
    jars = [str(tmp_path / name) for name in ("kafka-clients-4.jar", f"{NAME}-4.3.0.jar")]
    for jar in jars:
        open(jar, "w").close()
    assert connector_settings({"spark.jars": "/mine.jar"}, wanted=False) == {
        "spark.jars": ",".join(["/mine.jar", *jars])
    }


def told(**properties: str) -> dict[str, str]:
    log = LogLocation(
        "kafka", "broker:9092", "t", 1, properties={k.replace("_", "."): v for k, v in properties.items()}
    )
    return client_options(log)


def test_properties_of_the_client_go_to_the_java_client() -> None:
    assert told(client_id="me") == {"kafka.bootstrap.servers": "broker:9092", "kafka.client.id": "me"}
    found = told(
        security_protocol="SASL_SSL", sasl_mechanisms="SCRAM-SHA-512", sasl_username="me", sasl_password='a"b\\'
    )
    assert found == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\";',
    }
    assert "PlainLoginModule" in told(sasl_mechanism="PLAIN", sasl_username="me")["kafka.sasl.jaas.config"]
    found = told(ssl_ca_location="/ca.pem")
    assert found["kafka.ssl.truststore.location"] == "/ca.pem"
    assert found["kafka.ssl.truststore.type"] == "PEM"
