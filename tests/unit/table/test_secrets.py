"""What another engine let stand in a table's options is not shown when it may be a secret."""

from __future__ import annotations

import orjson
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption
from lakelog.paimon.schema.changes import RemoveOption, SetOption

SECRETS = dict.fromkeys(
    ("s3.secret-key", "fs.s3a.secret.key", "s3.access.key", "properties.sasl.password", "properties.ssl.keystore.key",
     "s3.sse.customer-key", "basic.auth.user.info", "google.service.account.json", "pulsar.auth"),
    "hush",
) | {
    "dsn": "host=h user=u password = 'hush hush' dbname=d",
    "endpoint": "https://h/p#access_token=hush",
    "settings": '{"client_secret": "hush", "n": 5}',
    "client.header": "Bearer hush",
    "plugin.params": "token:hush",
}  # fmt: skip


@pytest.mark.parametrize("key", SECRETS)
def test_secrets_in_the_options_of_a_table(tmp_path, key: str) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int)")
        path = tmp_path / "d.db" / "t" / "schema" / "schema-0"
        schema = orjson.loads(path.read_bytes())
        schema["options"][key] = SECRETS[key]
        path.write_bytes(orjson.dumps(schema))
        table = lake.table("d.t")
        shown = [str(lake.table(f"d.t${name}").scan().to_arrow().to_pylist()) for name in ("options", "schemas")]
        shown += [str(table.describe(extended=True)), str(lake.sql("show create table d.t")[0])]
        for text in shown:
            assert key in text
            assert "hush" not in text


ELSEWHERE = (
    SetOption("log-store.address", "evil:9"),
    SetOption("kafka.bootstrap.servers", "evil:9"),
    SetOption("Kafka.Bootstrap.Servers", "evil:9"),
    RemoveOption("kafka.bootstrap.servers"),
    SetOption("properties.bootstrap.servers", "evil:9"),
    SetOption("properties.security.protocol", "SASL_PLAINTEXT"),
)


@pytest.mark.parametrize("change", ELSEWHERE, ids=str)
def test_a_secret_goes_to_a_new_address_only_with_the_secret_given_again(tmp_path, change) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int)")
        path = tmp_path / "d.db" / "t" / "schema" / "schema-0"
        schema = orjson.loads(path.read_bytes())
        log = {"log-store.type": "kafka", "log-store.address": "good:9", "properties.sasl.password": "hush"}
        path.write_bytes(orjson.dumps({**schema, "options": {**schema["options"], **log}}))
        table = lake.table("d.t")
        with pytest.raises(InvalidOption, match=r"'properties\.sasl\.password' would be sent") as refused:
            table.alter(change)
        assert "hush" not in str(refused.value)
        with pytest.raises(InvalidOption, match="plain text"):
            table.alter(change, SetOption("properties.sasl.password", "mine"))
        table.alter(
            change, SetOption("properties.sasl.password", "mine"), SetOption("log-store.allow-plaintext", "true")
        )
        assert lake.table("d.t").options["properties.sasl.password"] == "mine"
        lake.table("d.t").alter(SetOption("log-store.address", "other:9"), RemoveOption("properties.sasl.password"))
        assert "properties.sasl.password" not in lake.table("d.t").options
