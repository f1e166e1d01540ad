"""Lines of the log: fields, forms, no secrets."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidOption
from lakelog.io.logs import FIELDS, configure_logs, fields, without_secrets

LOGGER = logging.getLogger("lakelog.test")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    logger = logging.getLogger("lakelog")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def lines_of(form: str) -> io.StringIO:
    stream = io.StringIO()
    assert configure_logs("info", form, stream, {})
    return stream


def test_a_json_line_has_the_message_and_the_fields() -> None:
    out = lines_of("json")
    LOGGER.info("table %s: done", "db.t", extra=fields(table="db.t", snapshot=7, bucket=None, duration_s=0.5))
    LOGGER.debug("not from this level on")
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "lakelog.test",
        "message": "table db.t: done",
        "table": "db.t",
        "snapshot": 7,
        "duration_s": 0.5,
    }


def test_an_exception_is_part_of_its_json_line() -> None:
    out = lines_of("json")
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        LOGGER.exception("failed")
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert line["error"].endswith("ValueError: password=******")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_form_shows_a_secret(form: str) -> None:
    out = lines_of(form)
    LOGGER.warning("client of %s refused: 'properties.sasl.password' = 'hunter2'", "amqp://user:hunter2@host")
    assert "hunter2" not in out.getvalue()
    assert "amqp://user:******@host" in out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "s3.secret-key=hunter2",
        "'s3.access-key' = 'hunter2'",
        "Authorization token: hunter2",
        "pulsar.client.authParams=hunter2",
        "sasl.jaas.config=\"org.x required password='hunter2';\"",
        "postgresql://me:hunter2@db/names",
    ],
)
def test_the_value_of_what_is_called_like_a_secret_is_hidden(text: str) -> None:
    assert "hunter2" not in without_secrets(text)


def test_what_is_no_secret_stays() -> None:
    told = "table db.t: snapshot 7 has 3 epochs; kafka://host:9092 at 10:30:00"
    assert without_secrets(told) == told


def test_the_environment_decides_where_nothing_is_given_and_nothing_happens_without_both() -> None:
    stream = io.StringIO()
    assert not configure_logs(None, None, stream, {})
    assert configure_logs(None, None, stream, {"LAKELOG_LOG_LEVEL": "error", "LAKELOG_LOG_FORMAT": "json"})
    LOGGER.warning("not from this level on")
    assert stream.getvalue() == ""


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidOption, match="LAKELOG_LOG_LEVEL = 'loud' must be one of: debug, info"):
        configure_logs("loud", None, io.StringIO(), {})


def test_the_fields_of_every_line_in_the_code_are_declared() -> None:
    root = Path(lakelog.__file__).parent
    given = [
        name
        for path in root.rglob("*.py")
        if path.name != "logs.py"
        for call in re.findall(r"\bfields\(([a-z_]+=.*)\)", path.read_text(encoding="utf-8"))
        for name in re.findall(r"(\w+)=", call)
    ]
    assert len(given) > 20
    assert sorted(set(given) - set(FIELDS) - {"extra"}) == []


def test_debug_tells_snapshot_files_requests_and_decisions_with_the_number_of_the_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "lakelog"):
        lake = lakelog.connect(tmp_path)
        table = lake.create_table("d.t", pa.schema([("id", pa.int64())]), primary_key=["id"])
        table.write(pa.table({"id": [1, 2]}))
        caplog.clear()
        lake.sql("select id from d.t where id = 1", engine="local").to_arrow()
        first = [(record.name, record.getMessage()) for record in caplog.records]
        caplog.clear()
        table.compact()
        second = [record.getMessage() for record in caplog.records]
    numbers = {text.split()[1].rstrip(":") for _, text in first if text.startswith("statement")}
    assert "0" not in numbers and len(numbers) == 1
    assert any(name == "lakelog.steps" and "plan table=d.t" in text and "files=1" in text for name, text in first)
    assert any(name == "lakelog.steps" and "run-query engine=local" in text for name, text in first)
    assert any(name == "lakelog.storage" and "snapshot-1" in text for name, text in first)
    assert any("commit table=d.t kind=COMPACT snapshot=2" in text for text in second)
    assert numbers.isdisjoint({text.split()[1].rstrip(":") for text in second if text.startswith("statement")})
