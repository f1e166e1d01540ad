"""The topic of a log on a real Pulsar: made, changed behind the table's back, refused, dropped, and how to reach it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace

import pytest

from lakelog import connect
from lakelog.errors import AlreadyExists, InvalidOption, NotFound, Unavailable
from lakelog.logstore.pulsar.system import PulsarLogSystem
from lakelog.logstore.pulsar.topic import PulsarTopic
from log_records import append, everything, soon
from log_tables import log_of
from pulsar_logs import new_location, on
from servers.pulsar_server import PulsarServer

SYSTEM = PulsarLogSystem()
KEY = base64.b64encode(b"secret key of a test that is long enough")


def test_the_topic_goes_with_the_table(pulsar_server, tmp_path) -> None:
    on(pulsar_server, tmp_path)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    log = log_of(lake.table("db.t"))
    SYSTEM.check(log)
    lake.sql("drop table db.t")
    with pytest.raises(NotFound):
        SYSTEM.check(log)


def test_a_changed_number_of_partitions_is_reported(pulsar_server) -> None:
    location = SYSTEM.create(new_location(pulsar_server))
    topic = PulsarTopic(location)
    topic.admin.change("POST", f"{topic.path}/partitions", 3)
    for use in (SYSTEM.check, SYSTEM.reader, SYSTEM.appender):
        with pytest.raises(InvalidOption, match="3 partitions, but the table has 2"):
            use(location)
    with pytest.raises(AlreadyExists, match="'log-store.partitions' = '3'"):
        SYSTEM.create(replace(location, log_id=""))


def test_properties_are_checked_and_secrets_stay_out_of_errors(pulsar_server) -> None:
    good = new_location(pulsar_server).properties
    wrong = [
        ({"sasl.password": "hush"}, r"properties\.sasl\.password"),
        ({"pulsar.client.authParam": "hush"}, r"did you mean 'properties\.pulsar\.client\.authParams'"),
        ({"pulsar.client.authPluginClassName": "Kerberos", "pulsar.client.authParams": "hush"}, "AuthenticationToken"),
        ({"pulsar.client.authPluginClassName": "AuthenticationBasic", "pulsar.client.authParams": "hush"}, "userId"),
        ({"pulsar.client.authPluginClassName": "AuthenticationToken"}, r"authParams' is missing"),
        ({"pulsar.client.tlsAllowInsecureConnection": "yes"}, "tlsAllowInsecureConnection"),
    ]
    for properties, told in wrong:
        with pytest.raises(InvalidOption, match=told) as error:
            SYSTEM.create(new_location(pulsar_server, properties={**good, **properties}))
        assert "hush" not in str(error.value)
    with pytest.raises(InvalidOption, match="pulsar://host:6650"):
        SYSTEM.create(replace(new_location(pulsar_server), address="localhost:6650"))
    for topic in ("non-persistent://public/default/t", "a/b", "x//y"):
        with pytest.raises(InvalidOption, match=r"log-store\.topic"):
            SYSTEM.create(replace(new_location(pulsar_server), topic=topic))


def test_an_address_without_a_server_is_unavailable(pulsar_server) -> None:
    nobody = replace(new_location(pulsar_server), address="pulsar://127.0.0.1:1")
    with soon(), pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        SYSTEM.create(nobody)
    assert PulsarTopic(nobody).admin.get("persistent/public/default/partitioned") is not None
    with soon(), pytest.raises(Unavailable, match="admin interface"):
        SYSTEM.create(new_location(pulsar_server, properties={"pulsar.admin.adminUrl": "http://127.0.0.1:1"}))


def test_a_token_opens_a_cluster_that_asks_for_one(tmp_path) -> None:
    """Both ways in: the client's and the admin interface."""
    token, other = signed("admin"), signed("me")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:;base64,{KEY.decode()}",
        "superUserRoles": "admin",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token}",
    }
    with PulsarServer(tmp_path / "pulsar", settings, token) as server:
        assert "token" not in repr(new_location(server))
        location = SYSTEM.create(new_location(server))
        assert append(SYSTEM.appender(location), [b"a"])
        assert everything(SYSTEM.reader(location)) == [b"a"]
        (tmp_path / "token").write_text(token + "\n")
        from_file = {**server.properties, "pulsar.client.authParams": f"file://{tmp_path / 'token'}"}
        SYSTEM.check(replace(location, properties=from_file))
        for refused in ({}, {"pulsar.client.authParams": f"token:{other}"}):
            outside = replace(location, properties={"pulsar.admin.adminUrl": server.admin_url, **refused})
            for use in (SYSTEM.check, SYSTEM.appender, SYSTEM.create):
                with soon(), pytest.raises(InvalidOption, match="refuses the credentials") as error:
                    use(outside)
                assert other not in str(error.value)


def signed(subject: str) -> str:
    """A token (JWT, HS256) for the key of the test."""

    def text(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    head = text(json.dumps({"alg": "HS256"}).encode()) + "." + text(json.dumps({"sub": subject}).encode())
    return head + "." + text(hmac.new(base64.b64decode(KEY), head.encode(), hashlib.sha256).digest())
